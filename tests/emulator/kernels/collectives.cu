// Every warp function and barrier once, over values that Python recomputes.
#include "harness.h"
#include "ptx/barrier.h"

using namespace spark;
using namespace spark::test;

namespace {

constexpr int kThreads = 64;

template <typename T>
struct Shuffles {
  const T* in;  // [kThreads]
  T* out;       // [4, 6, kThreads]: idx, up, down, xor over widths 1 … 32
  int amount;
};

template <typename T>
__global__ void __launch_bounds__(kThreads) shuffle_kernel(const __grid_constant__ Shuffles<T> p) {
  const int i = threadIdx.x;
  T* out = p.out + i;
  for (int width = 1; width <= 32; width *= 2, out += kThreads) {
    out[0 * 6 * kThreads] = __shfl_sync(kFullMask, p.in[i], (i * 7 + p.amount) % 32, width);
    out[1 * 6 * kThreads] = __shfl_up_sync(kFullMask, p.in[i], p.amount, width);
    out[2 * 6 * kThreads] = __shfl_down_sync(kFullMask, p.in[i], p.amount, width);
    out[3 * 6 * kThreads] = __shfl_xor_sync(kFullMask, p.in[i], p.amount, width);
  }
}

template <typename T>
Status run_shuffles() {
  Numbers numbers;
  T* in = make_buffer<T>(kThreads);
  for (int i = 0; i < kThreads; ++i) in[i] = static_cast<T>(numbers.between(-1e6f, 1e6f));
  show("in", in, kThreads);
  for (int amount : {0, 1, 3, 5, 16, 31}) {
    T* out = make_buffer<T>(4 * 6 * kThreads);
    const Shuffles<T> p{in, out, amount};
    const Status status = finished(SPARK_LAUNCH(shuffle_kernel<T>, LaunchConfig{dim3(1), dim3(kThreads)}, p));
    if (status.code != 0) return status;
    show(("out" + std::to_string(amount)).c_str(), out, 4 * 6 * kThreads);
  }
  return ok();
}

struct Words {
  const uint32_t* in;  // [kThreads]
  uint32_t* out;       // [rows, kThreads]
};

template <typename Kernel>
Status run_words(Kernel kernel, int rows, uint32_t modulus = 0) {
  Numbers numbers;
  uint32_t* in = make_buffer<uint32_t>(kThreads);
  for (int i = 0; i < kThreads; ++i) in[i] = modulus == 0 ? numbers.next() : numbers.next() % modulus;
  uint32_t* out = make_buffer<uint32_t>(rows * kThreads);
  const Status status = finished(launch(kernel, LaunchConfig{dim3(1), dim3(kThreads)}, Words{in, out}));
  show("in", in, kThreads);
  show("out", out, rows * kThreads);
  return status;
}

// Lanes of one warp in two groups, with masks of their own and different numbers of steps.
__global__ void vote_kernel(const __grid_constant__ Words p) {
  const int i = threadIdx.x;
  const unsigned mask = i % 32 < 12 ? 0x00000fffu : 0xfffff000u;
  const uint32_t x = p.in[i];
  for (int step = 0; step < (mask == 0x00000fffu ? 3 : 5); ++step) __syncwarp(mask);
  p.out[0 * kThreads + i] = __ballot_sync(mask, x & 1u);
  p.out[1 * kThreads + i] = __all_sync(mask, x != 0);
  p.out[2 * kThreads + i] = __any_sync(mask, x == 0);
  p.out[3 * kThreads + i] = __match_any_sync(mask, x);
  p.out[4 * kThreads + i] = __match_any_sync(mask, static_cast<unsigned long long>(x / 2) << 33);
}

__global__ void reduce_kernel(const __grid_constant__ Words p) {
  const int i = threadIdx.x;
  const unsigned mask = i % 32 < 12 ? 0x00000fffu : 0xfffff000u;
  const uint32_t x = p.in[i];
  p.out[0 * kThreads + i] = __reduce_add_sync(mask, x);
  p.out[1 * kThreads + i] = __reduce_min_sync(mask, x);
  p.out[2 * kThreads + i] = __reduce_max_sync(mask, x);
  p.out[3 * kThreads + i] = __reduce_and_sync(mask, x | 0x80u);
  p.out[4 * kThreads + i] = __reduce_or_sync(mask, x & 0xffu);
  p.out[5 * kThreads + i] = __reduce_xor_sync(mask, x);
  p.out[6 * kThreads + i] = __reduce_min_sync(mask, static_cast<int>(x));
  p.out[7 * kThreads + i] = __reduce_max_sync(mask, static_cast<int>(x));
}

__global__ void block_vote_kernel(const __grid_constant__ Words p) {
  const int i = threadIdx.x;
  const uint32_t x = p.in[i];
  p.out[0 * kThreads + i] = __syncthreads_count(x % 2 == 0);
  p.out[1 * kThreads + i] = __syncthreads_and(x % 4 != 9);
  p.out[2 * kThreads + i] = __syncthreads_and(x != p.in[7]);
  p.out[3 * kThreads + i] = __syncthreads_or(x == p.in[7]);
  p.out[4 * kThreads + i] = __syncthreads_or(x % 4 == 9);
}

// Warp 0 fills what warp 1 reads; it waits for nobody, warp 1 waits for it.
__global__ void producer_kernel(const __grid_constant__ Words p) {
  SHARED_ARRAY(uint32_t, box_smem, 32);
  const int i = threadIdx.x;
  if (warp_id() == 0) {
    box_smem[lane_id()] = p.in[i] * 3;
    __threadfence_block();
    ptx::bar_arrive(1, kThreads);
    p.out[i] = 1;
  } else {
    ptx::bar_sync(1, kThreads);
    p.out[i] = box_smem[31 - lane_id()];
  }
  // A barrier of one warp alone, twice.
  ptx::bar_sync(2 + warp_id(), 32);
  ptx::bar_sync(2 + warp_id(), 32);
  p.out[kThreads + i] = warp_id();
}

__global__ void warp_header_kernel(const __grid_constant__ Words p) {
  const int i = threadIdx.x;
  const float x = static_cast<float>(static_cast<int>(p.in[i])) * 1e-3f;
  float sum = x, largest = x, quad = x, quad_largest = x;
  for (int step = 16; step > 0; step /= 2) {
    sum += __shfl_xor_sync(kFullMask, sum, step);
    largest = fmaxf(largest, __shfl_xor_sync(kFullMask, largest, step));
  }
  for (int step = 1; step <= 2; step *= 2) {
    quad += __shfl_xor_sync(kFullMask, quad, step);
    quad_largest = fmaxf(quad_largest, __shfl_xor_sync(kFullMask, quad_largest, step));
  }
  p.out[0 * kThreads + i] = __float_as_uint(warp_sum(x)) == __float_as_uint(sum);
  p.out[1 * kThreads + i] = __float_as_uint(warp_max(x)) == __float_as_uint(largest);
  p.out[2 * kThreads + i] = __float_as_uint(quad_sum(x)) == __float_as_uint(quad);
  p.out[3 * kThreads + i] = __float_as_uint(quad_max(x)) == __float_as_uint(quad_largest);
  p.out[4 * kThreads + i] = lane_id() + 32 * warp_id();
  p.out[5 * kThreads + i] = __float_as_uint(quad_sum(x));
}

__global__ void bits_kernel(const __grid_constant__ Words p) {
  const int i = threadIdx.x;
  const uint32_t x = p.in[i];
  p.out[0 * kThreads + i] = __popc(x);
  p.out[1 * kThreads + i] = __ffs(static_cast<int>(x & 0xfff00000u));
  p.out[2 * kThreads + i] = __clz(static_cast<int>(x >> (i % 33 % 32)));
  p.out[3 * kThreads + i] = __brev(x);
  p.out[4 * kThreads + i] = __byte_perm(x, ~x, 0x9c51u);
  p.out[5 * kThreads + i] = __umulhi(x, 0x9e3779b9u);
  p.out[6 * kThreads + i] = __float2int_rn(static_cast<float>(static_cast<int>(x)) * 1e-8f);
  p.out[7 * kThreads + i] = min(static_cast<int>(x), 5) + max(static_cast<int>(x), 7);
}

}  // namespace

CASE(shuffle_int) {
  return run_shuffles<int>();
}
CASE(shuffle_unsigned) {
  return run_shuffles<unsigned>();
}
CASE(shuffle_float) {
  return run_shuffles<float>();
}
CASE(shuffle_double) {
  return run_shuffles<double>();
}
CASE(shuffle_long) {
  return run_shuffles<long long>();
}
CASE(vote) {
  return run_words(vote_kernel, 5, 3);
}
CASE(reduce) {
  return run_words(reduce_kernel, 8);
}
CASE(block_vote) {
  return run_words(block_vote_kernel, 5);
}
CASE(producer) {
  return run_words(producer_kernel, 2);
}
CASE(warp_header) {
  return run_words(warp_header_kernel, 6);
}
CASE(bits) {
  return run_words(bits_kernel, 8);
}
