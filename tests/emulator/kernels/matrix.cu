// mma and ldmatrix over matrices that Python multiplies and lays out again.
#include "harness.h"
#include "ptx/ldmatrix.h"
#include "ptx/mma.h"

using namespace spark;
using namespace spark::test;

namespace {

template <typename T>
struct Product {
  const T* a;      // [16, 16]
  const T* b;      // [8, 16]: column n of B is row n here
  const float* c;  // [16, 8]
  float* d;        // [16, 8]
};

// Fragments by the layout that csrc/ptx/mma.h states.
template <typename T>
__global__ void mma_kernel(const __grid_constant__ Product<T> p) {
  const int g = lane_id() / 4, t = lane_id() % 4;
  const auto pair = [](const T* x) { return *reinterpret_cast<const uint32_t*>(x); };
  const uint32_t a[4] = {pair(p.a + g * 16 + 2 * t), pair(p.a + (g + 8) * 16 + 2 * t), pair(p.a + g * 16 + 2 * t + 8),
                         pair(p.a + (g + 8) * 16 + 2 * t + 8)};
  const uint32_t b[2] = {pair(p.b + g * 16 + 2 * t), pair(p.b + g * 16 + 2 * t + 8)};
  float acc[4];
  for (int i = 0; i < 4; ++i) acc[i] = p.c[(g + i / 2 * 8) * 8 + 2 * t + i % 2];
  ptx::mma_m16n8k16<T>(acc, a, b, acc);
  for (int i = 0; i < 4; ++i) p.d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = acc[i];
}

// The same product with its fragments from shared memory, as the attention kernels load them.
template <typename T>
__global__ void ldmatrix_mma_kernel(const __grid_constant__ Product<T> p) {
  SHARED_ARRAY(T, a_smem, 16 * 16);
  SHARED_ARRAY(T, b_smem, 8 * 16);
  const int lane = lane_id(), g = lane / 4, t = lane % 4;
  for (int i = lane; i < 16 * 16; i += 32) a_smem[i] = p.a[i];
  for (int i = lane; i < 8 * 16; i += 32) b_smem[i] = p.b[i];
  __syncthreads();
  uint32_t a[4], b[2];
  ptx::ldmatrix_x4(a, a_smem + lane % 16 * 16 + lane / 16 * 8);
  ptx::ldmatrix_x2(b, b_smem + lane % 8 * 16 + lane / 8 % 2 * 8);
  float c[4], d[4];
  for (int i = 0; i < 4; ++i) c[i] = p.c[(g + i / 2 * 8) * 8 + 2 * t + i % 2];
  ptx::mma_m16n8k16<T>(d, a, b, c);
  for (int i = 0; i < 4; ++i) p.d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = d[i];
}

template <typename T, typename Kernel>
Status run_product(Kernel kernel, float scale, bool integers) {
  Numbers numbers;
  T* a = make_buffer<T>(16 * 16);
  T* b = make_buffer<T>(8 * 16);
  float* c = make_buffer<float>(16 * 8);
  float* d = make_buffer<float>(16 * 8);
  const auto value = [&] {
    const float x = numbers.between(-scale, scale);
    return integers ? truncf(x) : x;
  };
  for (int i = 0; i < 16 * 16; ++i) convert(value(), a[i]);
  for (int i = 0; i < 8 * 16; ++i) convert(value(), b[i]);
  for (int i = 0; i < 16 * 8; ++i) c[i] = value();
  const Status status = finished(launch(kernel, LaunchConfig{dim3(1), dim3(32)}, Product<T>{a, b, c, d}));
  show("a", a, 16 * 16);
  show("b", b, 8 * 16);
  show("c", c, 16 * 8);
  show("d", d, 16 * 8);
  return status;
}

struct Tiles {
  const uint16_t* in;  // [64, 8] rows in shared memory, then the lanes' choice of rows
  const int* rows;     // [32]
  uint32_t* out;       // [14, 32]
};

__global__ void ldmatrix_kernel(const __grid_constant__ Tiles p) {
  SHARED_ARRAY(uint16_t, tile_smem, 64 * 8);
  const int lane = lane_id();
  for (int i = lane; i < 64 * 8; i += 32) tile_smem[i] = p.in[i];
  __syncthreads();
  const uint16_t* row = tile_smem + p.rows[lane] * 8;
  uint32_t* out = p.out + lane;
  const auto put = [&](const auto& r) {
    for (uint32_t word : r) {
      *out = word;
      out += 32;
    }
  };
  uint32_t r1[1], r2[2], r4[4];
  ptx::ldmatrix_x1(r1, row);
  put(r1);
  ptx::ldmatrix_x2(r2, row);
  put(r2);
  ptx::ldmatrix_x4(r4, row);
  put(r4);
  ptx::ldmatrix_x1_trans(r1, row);
  put(r1);
  ptx::ldmatrix_x2_trans(r2, row);
  put(r2);
  ptx::ldmatrix_x4_trans(r4, row);
  put(r4);
}

}  // namespace

CASE(mma_bf16) {
  return run_product<bf16>(mma_kernel<bf16>, 4.0f, false);
}
CASE(mma_fp16) {
  return run_product<fp16>(mma_kernel<fp16>, 4.0f, false);
}
CASE(mma_bf16_integers) {
  return run_product<bf16>(mma_kernel<bf16>, 100.0f, true);
}
CASE(mma_fp16_integers) {
  return run_product<fp16>(mma_kernel<fp16>, 100.0f, true);
}
CASE(mma_fp16_subnormals) {
  return run_product<fp16>(mma_kernel<fp16>, 6e-5f, false);
}
CASE(ldmatrix_mma_bf16) {
  return run_product<bf16>(ldmatrix_mma_kernel<bf16>, 4.0f, false);
}
CASE(ldmatrix_mma_fp16) {
  return run_product<fp16>(ldmatrix_mma_kernel<fp16>, 4.0f, false);
}

CASE(ldmatrix) {
  Numbers numbers;
  uint16_t* in = make_buffer<uint16_t>(64 * 8);
  int* rows = make_buffer<int>(32);
  uint32_t* out = make_buffer<uint32_t>(14 * 32);
  for (int i = 0; i < 64 * 8; ++i) in[i] = static_cast<uint16_t>(numbers.next());
  for (int i = 0; i < 32; ++i) rows[i] = static_cast<int>(numbers.next() % 64);
  const Status status = SPARK_LAUNCH(ldmatrix_kernel, LaunchConfig{dim3(1), dim3(32)}, Tiles{in, rows, out});
  const Status end = finished(status);
  show("in", in, 64 * 8);
  show("rows", rows, 32);
  show("out", out, 14 * 32);
  return end;
}
