// Faults: accesses outside of the kernel's memory, to what it may not write, and to bytes that nothing has written.
// `here: TAG` marks a line that the report names.
#include "cases.h"
#include "ptx/ldmatrix.h"

using namespace spark;
using namespace spark::broken;

namespace {

constexpr int PAGE = 16;

// One page too many when the length is a multiple of the page: the table's tail names a page past the cache.
template <bool BROKEN>
__global__ void page_past_the_cache(const int* k_pages,     // [4, PAGE]
                                    const int* page_table,  // [4], the last one unused
                                    int kv_len, int* out) {
  const int t = threadIdx.x;
  const int pages = BROKEN ? kv_len / PAGE + 1 : (kv_len + PAGE - 1) / PAGE;
  int sum = 0;
  for (int i = 0; i < pages; ++i) {
    const int k = k_pages[page_table[i] * PAGE + t];  // here: page_past_the_cache
    const int weight = i * PAGE + t < kv_len ? 1 : 0;
    sum += weight * k;
  }
  out[t] = sum;
}

// A window that begins before the first key.
template <bool BROKEN>
__global__ void read_before_the_start(const int* in, int* out) {
  const int t = threadIdx.x;
  const int begin = BROKEN ? t - 4 : t < 4 ? 0 : t - 4;
  int sum = 0;
  for (int i = begin; i <= t; ++i) {
    const int k = in[i];  // here: read_before_the_start
    const int weight = i >= 0 ? 1 : 0;
    sum += weight * k;
  }
  out[t] = sum;
}

template <bool BROKEN>
__global__ void read_past_a_shared_array(const int* in, int* out) {
  SHARED_ARRAY(int, tile_smem, 64);
  SHARED_ARRAY(int, next_smem, 64);
  const int t = threadIdx.x;
  tile_smem[t] = in[t];
  next_smem[t] = in[t];
  __syncthreads();
  const int* const tile = tile_smem;
  out[t] = tile[BROKEN || t < 63 ? t + 1 : 63] - next_smem[t];  // here: read_past_a_shared_array
}

template <bool BROKEN>
__global__ void write_past_a_shared_array(const int* in, int* out) {
  SHARED_ARRAY(int, tile_smem, 64);
  SHARED_ARRAY(int, next_smem, 64);
  const int t = threadIdx.x;
  next_smem[t] = 2 * in[t];
  __syncthreads();
  int* const tile = tile_smem;
  tile[BROKEN ? t + 1 : t] = in[t];  // here: write_past_a_shared_array
  __syncthreads();
  out[t] = next_smem[t] + (t > 0 && t < 63 ? 0 * tile_smem[t] : 0);
}

// Three rows, and room for two.
__global__ void dynamic_row_too_few(const int* in, int* out) {
  DYNAMIC_SHARED(int, rows_smem);
  const int t = threadIdx.x;
  for (int row = 0; row < 3; ++row) rows_smem[64 * row + t] = in[64 * row + t];  // here: dynamic_row_too_few
  __syncthreads();
  out[t] = rows_smem[191 - t];
}

// Rows past the length were never filled; a mask hides what is read there.
template <bool BROKEN>
__global__ void unwritten_shared(const int* in, int* out) {
  SHARED_ARRAY(int, tile_smem, 64);
  const int t = threadIdx.x;
  if (t < 40) tile_smem[t] = in[t];
  if (!BROKEN && t >= 40) tile_smem[t] = 0;
  __syncthreads();
  const int visible = in[63 - t] < 40 ? 1 : 0;
  out[t] = tile_smem[63 - t] * visible;  // here: unwritten_shared
}

// Split-KV: the last split is empty and leaves its partial as it was; its weight of 0 does not help when that is NaN.
template <bool BROKEN>
__global__ void split(const int* in, int* partial, int* weight) {
  const int s = blockIdx.x, t = threadIdx.x;
  const bool empty = s == 2;
  if (t == 0) weight[s] = empty ? 0 : 1;
  if (!empty) partial[32 * s + t] = in[32 * s + t];
  if (!BROKEN && empty) partial[32 * s + t] = 0;
}
__global__ void combine(const int* partial, const int* weight, int* out) {
  const int t = threadIdx.x;
  int sum = 0;
  for (int s = 0; s < 3; ++s) sum += weight[s] * partial[32 * s + t];  // here: unwritten_partial
  out[t] = sum;
}

// Scaled in place, which changes the caller's tensor.
template <bool BROKEN>
__global__ void write_to_an_input(const int* in, int* out) {
  const int t = threadIdx.x;
  if constexpr (BROKEN) {
    int* const q = const_cast<int*>(in);
    q[t] = 2 * q[t];  // here: write_to_an_input
    out[t] = q[t];
  } else {
    out[t] = 2 * in[t];
  }
}

// An optional tensor that was not given.
template <bool BROKEN>
__global__ void null_pointer(const int* in, const int* bias, int* out) {
  const int t = threadIdx.x;
  int value = in[t];
  if (BROKEN || bias != nullptr) value += bias[t];  // here: null_pointer
  out[t] = value;
}

// Rows of 24 bytes: every second one begins in the middle of 16.
template <bool BROKEN>
__global__ void misaligned_ldmatrix(const int* in, int* out) {
  constexpr int STRIDE = BROKEN ? 12 : 16;
  SHARED_ARRAY(uint16_t, tile_smem, 8 * STRIDE);
  const int t = threadIdx.x;
  for (int i = 0; i < 2; ++i) tile_smem[t / 4 * STRIDE + t % 4 * 2 + i] = static_cast<uint16_t>(2 * in[t] + i);
  __syncwarp();
  uint32_t r[1];
  ptx::ldmatrix_x1(r, tile_smem + t % 8 * STRIDE);  // here: misaligned_ldmatrix
  out[t] = static_cast<int>(r[0] & 0xffffu);
}

FAULT(page_past_the_cache) {
  const program::Buffer<int> k_pages("k_pages", count_up(4 * PAGE));
  const program::Buffer<int> page_table("page_table", std::vector<int>{2, 0, 3, 4});
  const program::Buffer<int> out("out", PAGE);
  program::run(SPARK_LAUNCH(page_past_the_cache<BROKEN>, LaunchConfig{1, PAGE}, k_pages.data(), page_table.data(),
                            3 * PAGE, out.data()));
  expect_values(out, [](int i) { return 5 * PAGE + 3 * i; });
}
FAULT(read_before_the_start) {
  run_ints("read_before_the_start", read_before_the_start<BROKEN>, {1, 32}, 32, 32,
           [](int i) { return i < 4 ? i * (i + 1) / 2 : 5 * i - 10; });
}
FAULT(read_past_a_shared_array) {
  run_ints("read_past_a_shared_array", read_past_a_shared_array<BROKEN>, {1, 64}, 64, 64,
           [](int i) { return i < 63 ? 1 : 0; });
}
FAULT(write_past_a_shared_array) {
  run_ints("write_past_a_shared_array", write_past_a_shared_array<BROKEN>, {1, 64}, 64, 64,
           [](int i) { return 2 * i; });
}
FAULT(dynamic_row_too_few) {
  run_ints("dynamic_row_too_few", dynamic_row_too_few, {1, 64, (BROKEN ? 2 : 3) * 64 * sizeof(int)}, 192, 64,
           [](int i) { return 191 - i; });
}
FAULT(unwritten_shared) {
  run_ints("unwritten_shared", unwritten_shared<BROKEN>, {1, 64}, 64, 64,
           [](int i) { return 63 - i < 40 ? 63 - i : 0; });
}
FAULT(unwritten_partial) {
  const program::Buffer<int> in("in", count_up(64));
  const Workspace<int> partial("partial", 96);
  const Workspace<int> weight("weight", 3);
  const program::Buffer<int> out("out", 32);
  program::run(SPARK_LAUNCH(split<BROKEN>, LaunchConfig{3, 32}, in.data(), partial.data(), weight.data()));
  program::run(SPARK_LAUNCH(combine, LaunchConfig{1, 32}, partial.data(), weight.data(), out.data()));
  expect_values(out, [](int i) { return 2 * i + 32; });
}
FAULT(write_to_an_input) {
  run_ints("write_to_an_input", write_to_an_input<BROKEN>, {1, 32}, 32, 32, [](int i) { return 2 * i; });
}
FAULT(null_pointer) {
  const program::Buffer<int> in("in", count_up(32));
  const program::Buffer<int> out("out", 32);
  const int* const bias = nullptr;
  program::run(SPARK_LAUNCH(null_pointer<BROKEN>, LaunchConfig{1, 32}, in.data(), bias, out.data()));
  expect_values(out, [](int i) { return i; });
}
FAULT(misaligned_ldmatrix) {
  run_ints("misaligned_ldmatrix", misaligned_ldmatrix<BROKEN>, {1, 32}, 32, 32, [](int i) { return 2 * i; });
}

}  // namespace
