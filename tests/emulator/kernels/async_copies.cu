// cp.async: healthy kernels, which every mode must leave alone, and their broken twins.
#include "harness.h"
#include "ptx/cp_async.h"
#include "ptx/ld_global.h"
#include "ptx/prefetch.h"

using namespace spark;
using namespace spark::test;

namespace {

constexpr int kThreads = 64;
constexpr int kTiles = 9;
constexpr int kTile = kThreads * 4;  // floats, 16 bytes a thread

enum class Fault { none, no_wait, wait_too_weak, no_barrier_after_wait, refill_too_early };

struct Stream {
  const float* in;  // [kTiles, kTile]
  float* out;       // [kTiles, kThreads]
};

// Two stages: tile i + 1 is copied while tile i is summed. Each thread sums its neighbour's words.
template <Fault kFault>
__global__ void __launch_bounds__(kThreads) stream_kernel(const __grid_constant__ Stream p) {
  SHARED_ARRAY(float, tile_smem, 2 * kTile);
  const int i = threadIdx.x;
  const auto fill = [&](int tile) {
    const bool valid = tile < kTiles;
    const float* source = p.in + (valid ? tile : 0) * kTile + i * 4;
    ptx::prefetch_l2(source);
    float* target = tile_smem + tile % 2 * kTile + i * 4;
    if (tile % 2 == 0) {
      ptx::cp_async_cg_16(target, source, valid);
    } else {
      ptx::cp_async_cg_16_evict_first(target, source, valid);
    }
    ptx::cp_async_commit_group();
  };
  fill(0);
  for (int tile = 0; tile < kTiles; ++tile) {
    fill(tile + 1);
    if constexpr (kFault == Fault::wait_too_weak) {
      ptx::cp_async_wait_group<2>();
    } else if constexpr (kFault != Fault::no_wait) {
      ptx::cp_async_wait_group<1>();
    }
    if constexpr (kFault != Fault::no_barrier_after_wait) __syncthreads();
    const float* words = tile_smem + tile % 2 * kTile + (i + 1) % kThreads * 4;
    p.out[tile * kThreads + i] = words[0] + words[1] + words[2] + words[3];
    if constexpr (kFault != Fault::refill_too_early) __syncthreads();
  }
}

template <Fault kFault>
Status run_stream() {
  float* in = make_buffer<float>(kTiles * kTile);
  float* out = make_buffer<float>(kTiles * kThreads);
  for (int i = 0; i < kTiles * kTile; ++i) in[i] = static_cast<float>(i + 1);
  const Status status = finished(launch(stream_kernel<kFault>, LaunchConfig{dim3(1), dim3(kThreads)}, Stream{in, out}));
  show("out", out, kTiles * kThreads);
  return status;
}

struct Groups {
  const uint32_t* in;  // [8, 4]
  uint32_t* out;       // [steps, 6]: the first words of the six destinations after each step
};

// What PTX guarantees after each wait; what it leaves open is poison in late mode.
__global__ void groups_kernel(const __grid_constant__ Groups p) {
  SHARED_ARRAY(uint32_t, box_smem, 6 * 4);
  const auto copy = [&](int i, bool valid = true) { ptx::cp_async_cg_16(box_smem + i * 4, p.in + i * 4, valid); };
  uint32_t* out = p.out;
  const auto look = [&] {
    for (int i = 0; i < 6; ++i) *out++ = box_smem[i * 4];
  };
  copy(0);
  copy(1);
  ptx::cp_async_commit_group();
  copy(2);
  ptx::cp_async_commit_group();
  ptx::cp_async_commit_group();  // an empty group counts
  copy(3, false);
  ptx::cp_async_commit_group();
  copy(4);
  ptx::cp_async_wait_group<4>();
  look();
  ptx::cp_async_wait_group<3>();
  look();
  ptx::cp_async_wait_group<2>();
  look();
  ptx::cp_async_wait_group<1>();
  look();
  ptx::cp_async_wait_group<0>();
  look();  // 4 belongs to no group yet
  ptx::cp_async_wait_all();
  copy(5);  // never waited for
  look();
}

struct Bytes {
  const char* gmem;
  uint32_t* out;
  int smem_offset;
};

__global__ void placed_kernel(const __grid_constant__ Bytes p) {
  SHARED_ARRAY(char, box_smem, 64);
  SHARED_ARRAY(char, next_smem, 64);
  ptx::cp_async_cg_16(box_smem + p.smem_offset, p.gmem, true);  // here: placed
  ptx::cp_async_commit_group();
  ptx::cp_async_wait_group<0>();
  p.out[0] = *reinterpret_cast<uint32_t*>(box_smem) + next_smem[0];
}

__global__ void global_destination_kernel(const __grid_constant__ Bytes p) {
  ptx::cp_async_cg_16(p.out, p.gmem, true);  // here: global destination
}

__global__ void ld_global_kernel(const __grid_constant__ Bytes p) {
  const Vec16 v = ptx::ld_global_nc_16(p.gmem);  // here: ld_global
  for (int i = 0; i < 4; ++i) p.out[i] = v.word[i];
}

template <typename Kernel>
Status run_placed(Kernel kernel, int smem_offset, int gmem_offset) {
  char* gmem = make_buffer<char>(64);
  for (int i = 0; i < 64; ++i) gmem[i] = static_cast<char>(i);
  uint32_t* out = make_buffer<uint32_t>(4);
  const Bytes p{gmem + gmem_offset, out, smem_offset};
  const Status status = finished(launch(kernel, LaunchConfig{dim3(1), dim3(1)}, p));
  show("out", out, 4);
  return status;
}

}  // namespace

CASE(stream) {
  return run_stream<Fault::none>();
}
CASE(stream_no_wait) {
  return run_stream<Fault::no_wait>();
}
CASE(stream_wait_too_weak) {
  return run_stream<Fault::wait_too_weak>();
}
CASE(stream_no_barrier_after_wait) {
  return run_stream<Fault::no_barrier_after_wait>();
}
CASE(stream_refill_too_early) {
  return run_stream<Fault::refill_too_early>();
}

CASE(groups) {
  uint32_t* in = make_buffer<uint32_t>(8 * 4);
  uint32_t* out = make_buffer<uint32_t>(6 * 6);
  for (int i = 0; i < 8 * 4; ++i) in[i] = 100 + i / 4;
  const Status status = finished(SPARK_LAUNCH(groups_kernel, LaunchConfig{dim3(1), dim3(1)}, Groups{in, out}));
  show("out", out, 6 * 6);
  return status;
}

CASE(placed) {
  return run_placed(placed_kernel, 0, 16);
}
CASE(misaligned_smem) {
  return run_placed(placed_kernel, 8, 0);
}
CASE(misaligned_gmem) {
  return run_placed(placed_kernel, 0, 4);
}
CASE(past_the_array) {
  return run_placed(placed_kernel, 64, 0);
}
CASE(global_destination) {
  return run_placed(global_destination_kernel, 0, 0);
}
CASE(ld_global) {
  return run_placed(ld_global_kernel, 0, 16);
}
CASE(ld_global_misaligned) {
  return run_placed(ld_global_kernel, 0, 8);
}
