// Faults: arithmetic and accesses that C++ leaves undefined, whatever a GPU makes of them. `here: TAG` marks a line
// that the report names.
#include "cases.h"

using namespace spark;
using namespace spark::broken;

namespace {

constexpr int FAR_PAGE = 40000;
constexpr int PAGE_STRIDE = 65536;

// page * stride in 32 bits. The cache begins FAR_PAGE pages before the only page that has memory.
template <bool BROKEN>
__global__ void offset_overflow(const int* page_table, const int* k_pages, int page_stride, int* out) {
  const int t = threadIdx.x;
  const int page = page_table[0];
  if constexpr (BROKEN) {
    out[t] = k_pages[page * page_stride + t];  // here: offset_overflow
  } else {
    out[t] = k_pages[static_cast<int64_t>(page) * page_stride + t];
  }
}

// A mask of the first n lanes, for n = 32.
template <bool BROKEN>
__global__ void shift_by_the_width(const int* in, int* out) {
  const int n = in[1 + threadIdx.x];
  if constexpr (BROKEN) {
    out[threadIdx.x] = static_cast<int>((1u << n) - 1);  // here: shift_by_the_width
  } else {
    out[threadIdx.x] = static_cast<int>(n < 32 ? (1u << n) - 1 : kFullMask);
  }
}

// The accumulator of one row more than there are.
template <bool BROKEN>
__global__ void index_past_a_local_array(const int* in, int* out) {
  int rows[4];
  for (int i = 0; i < 4; ++i) rows[i] = in[i];
  const int row = in[threadIdx.x];
  out[threadIdx.x] = rows[BROKEN || row < 4 ? row : 3];  // here: index_past_a_local_array
}

// No kv head: group = query heads / kv heads.
template <bool BROKEN>
__global__ void divide_by_zero(const int* in, int* out) {
  const int kv_heads = in[threadIdx.x];
  out[threadIdx.x] = !BROKEN && kv_heads == 0 ? 0 : 64 / kv_heads;  // here: divide_by_zero
}

// A score that no int holds.
template <bool BROKEN>
__global__ void float_past_int(const int* in, int* out) {
  const float score = 1e9f * static_cast<float>(in[threadIdx.x]);
  const float held = BROKEN ? score : fminf(score, 2147483520.0f);
  out[threadIdx.x] = static_cast<int>(held);  // here: float_past_int
}

// Sixteen bytes at once, from a row that starts four bytes off.
template <bool BROKEN>
__global__ void misaligned_vector(const int* in, int* out) {
  const int t = threadIdx.x;
  const auto* row = reinterpret_cast<const int4*>(in + 4 * t + (BROKEN ? 1 : 0));
  const int4 four = *row;  // here: misaligned_vector
  out[t] = four.x + four.w;
}

// A mask of bytes, not all of them 0 or 1, read as bool.
template <bool BROKEN>
__global__ void byte_as_bool(const unsigned char* mask, int* out) {
  const int t = threadIdx.x;
  if constexpr (BROKEN) {
    const bool visible = reinterpret_cast<const bool*>(mask)[t];  // here: byte_as_bool
    out[t] = visible ? 1 : 0;
  } else {
    out[t] = mask[t] != 0 ? 1 : 0;
  }
}

FAULT(offset_overflow) {
  const program::Buffer<int> page("page", count_up(32));
  const program::Buffer<int> page_table("page_table", std::vector<int>{FAR_PAGE});
  const program::Buffer<int> out("out", 32);
  const uint64_t before = uint64_t{FAR_PAGE} * PAGE_STRIDE * sizeof(int);
  const auto* k_pages = reinterpret_cast<const int*>(reinterpret_cast<uintptr_t>(page.data()) - before);
  program::run(
      SPARK_LAUNCH(offset_overflow<BROKEN>, LaunchConfig{1, 32}, page_table.data(), k_pages, PAGE_STRIDE, out.data()));
  expect_values(out, [](int i) { return i; });
}
FAULT(shift_by_the_width) {
  run_ints("shift_by_the_width", shift_by_the_width<BROKEN>, {1, 32}, 33, 32,
           [](int i) { return static_cast<int>((uint64_t{2} << i) - 1); });
}
FAULT(index_past_a_local_array) {
  run_ints("index_past_a_local_array", index_past_a_local_array<BROKEN>, {1, 5}, 5, 5,
           [](int i) { return i < 4 ? i : 3; });
}
FAULT(divide_by_zero) {
  run_ints("divide_by_zero", divide_by_zero<BROKEN>, {1, 32}, 32, 32, [](int i) { return i == 0 ? 0 : 64 / i; });
}
FAULT(float_past_int) {
  run_ints("float_past_int", float_past_int<BROKEN>, {1, 4}, 4, 4,
           [](int i) { return i < 3 ? i * 1000000000 : 2147483520; });
}
FAULT(misaligned_vector) {
  run_ints("misaligned_vector", misaligned_vector<BROKEN>, {1, 32}, 132, 32, [](int i) { return 8 * i + 3; });
}
FAULT(byte_as_bool) {
  const program::Buffer<unsigned char> mask("mask", std::vector<unsigned char>{0, 1, 2, 3, 255, 0, 1, 128});
  const program::Buffer<int> out("out", 8);
  program::run(SPARK_LAUNCH(byte_as_bool<BROKEN>, LaunchConfig{1, 8}, mask.data(), out.data()));
  expect_values(out, [](int i) { return i == 0 || i == 5 ? 0 : 1; });
}

}  // namespace
