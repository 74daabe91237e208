// Faults: cp.async whose bytes are used, or whose place is reused, at the wrong time. `here: TAG` marks a line that the
// report names.
#include "cases.h"
#include "ptx/cp_async.h"

using namespace spark;
using namespace spark::broken;

namespace {

template <bool BROKEN>
__global__ void missing_wait(const int* in, int* out) {
  SHARED_ARRAY(int, tile_smem, 128);
  const int t = threadIdx.x;
  ptx::cp_async_cg_16(tile_smem + 4 * t, in + 4 * t, true);  // here: missing_wait copy
  ptx::cp_async_commit_group();
  if constexpr (!BROKEN) ptx::cp_async_wait_group<0>();
  out[t] = tile_smem[4 * t + 1];  // here: missing_wait read
}

// The last tile of a pipeline needs wait_group<0>.
template <bool BROKEN>
__global__ void wait_leaves_one_group(const int* in, int* out) {
  SHARED_ARRAY(int, tile_smem, 256);
  const int t = threadIdx.x;
  ptx::cp_async_cg_16(tile_smem + 4 * t, in + 4 * t, true);
  ptx::cp_async_commit_group();
  ptx::cp_async_cg_16(tile_smem + 128 + 4 * t, in + 128 + 4 * t, true);  // here: wait_leaves_one_group copy
  ptx::cp_async_commit_group();
  ptx::cp_async_wait_group<BROKEN ? 1 : 0>();
  const int first = tile_smem[4 * t];
  out[t] = first + tile_smem[128 + 4 * t];  // here: wait_leaves_one_group read
}

// wait_group waits for groups that were committed.
template <bool BROKEN>
__global__ void missing_commit(const int* in, int* out) {
  SHARED_ARRAY(int, tile_smem, 128);
  const int t = threadIdx.x;
  ptx::cp_async_cg_16(tile_smem + 4 * t, in + 4 * t, true);  // here: missing_commit copy
  if constexpr (!BROKEN) ptx::cp_async_commit_group();
  ptx::cp_async_wait_group<0>();
  out[t] = tile_smem[4 * t + 2];  // here: missing_commit read
}

// A thread waits for its own copies only.
template <bool BROKEN>
__global__ void missing_barrier_after_wait(const int* in, int* out) {
  SHARED_ARRAY(int, tile_smem, 256);
  const int t = threadIdx.x;
  ptx::cp_async_cg_16(tile_smem + 4 * t, in + 4 * t, true);  // here: missing_barrier_after_wait copy
  ptx::cp_async_commit_group();
  ptx::cp_async_wait_group<0>();
  if constexpr (!BROKEN) __syncthreads();
  out[t] = tile_smem[255 - 4 * t];  // here: missing_barrier_after_wait read
}

// A ring of two stages: the copy of tile i + 2 goes where tile i is still being read.
template <bool BROKEN>
__global__ void refill_too_early(const int* in, int* out) {
  constexpr int TILES = 4;
  SHARED_ARRAY(int, ring_smem, 2 * 256);
  const int t = threadIdx.x;
  const auto copy = [&](int tile) {
    if (tile < TILES) {
      ptx::cp_async_cg_16(ring_smem + tile % 2 * 256 + 4 * t, in + 256 * tile + 4 * t, true);  // here: refill copy
    }
    ptx::cp_async_commit_group();
  };
  int sum = 0;
  copy(0);
  for (int tile = 0; tile < TILES; ++tile) {
    copy(tile + 1);
    ptx::cp_async_wait_group<1>();
    __syncthreads();
    sum += ring_smem[tile % 2 * 256 + 255 - 4 * t];  // here: refill read
    if constexpr (!BROKEN) __syncthreads();
  }
  out[t] = sum;
}

// The tail of a row is cleared while its copy is on the way.
template <bool BROKEN>
__global__ void store_under_a_copy(const int* in, int* out) {
  SHARED_ARRAY(int, tile_smem, 128);
  const int t = threadIdx.x;
  ptx::cp_async_cg_16(tile_smem + 4 * t, in + 4 * t, true);  // here: store_under_a_copy copy
  ptx::cp_async_commit_group();
  if constexpr (!BROKEN) ptx::cp_async_wait_group<0>();
  tile_smem[4 * t + 3] = 0;  // here: store_under_a_copy store
  if constexpr (BROKEN) ptx::cp_async_wait_group<0>();
  out[t] = tile_smem[4 * t + 2] + tile_smem[4 * t + 3];
}

// K that starts one element off a 16-byte boundary.
template <bool BROKEN>
__global__ void misaligned_source(const int* in, int* out) {
  SHARED_ARRAY(int, tile_smem, 128);
  const int t = threadIdx.x;
  ptx::cp_async_cg_16(tile_smem + 4 * t, in + 4 * t + (BROKEN ? 1 : 4), true);  // here: misaligned_source
  ptx::cp_async_wait_all();
  out[t] = tile_smem[4 * t];
}

// Rows padded against bank conflicts by less than 16 bytes.
template <bool BROKEN>
__global__ void misaligned_rows(const int* in, int* out) {
  constexpr int STRIDE = BROKEN ? 5 : 8;
  SHARED_ARRAY(int, tile_smem, 32 * STRIDE);
  const int t = threadIdx.x;
  ptx::cp_async_cg_16(tile_smem + STRIDE * t, in + 4 * t, true);  // here: misaligned_rows
  ptx::cp_async_wait_all();
  out[t] = tile_smem[STRIDE * t];
}

// 24 rows of 16 bytes, copied by 32 threads: those past the end must say so.
template <bool BROKEN>
__global__ void copy_past_the_end(const int* in, int* out) {
  SHARED_ARRAY(int, tile_smem, 128);
  const int t = threadIdx.x;
  ptx::cp_async_cg_16(tile_smem + 4 * t, in + 4 * t, BROKEN || t < 24);  // here: copy_past_the_end
  ptx::cp_async_wait_all();
  const int weight = t < 24 ? 1 : 0;
  out[t] = weight * tile_smem[4 * t];
}

FAULT(missing_wait) {
  run_ints("missing_wait", missing_wait<BROKEN>, {1, 32}, 128, 32, [](int i) { return 4 * i + 1; });
}
FAULT(wait_leaves_one_group) {
  run_ints("wait_leaves_one_group", wait_leaves_one_group<BROKEN>, {1, 32}, 256, 32, [](int i) { return 8 * i + 128; });
}
FAULT(missing_commit) {
  run_ints("missing_commit", missing_commit<BROKEN>, {1, 32}, 128, 32, [](int i) { return 4 * i + 2; });
}
FAULT(missing_barrier_after_wait) {
  run_ints("missing_barrier_after_wait", missing_barrier_after_wait<BROKEN>, {1, 64}, 256, 64,
           [](int i) { return 255 - 4 * i; });
}
FAULT(refill_too_early) {
  run_ints("refill_too_early", refill_too_early<BROKEN>, {1, 64}, 1024, 64,
           [](int i) { return 4 * (255 - 4 * i) + 6 * 256; });
}
FAULT(store_under_a_copy) {
  run_ints("store_under_a_copy", store_under_a_copy<BROKEN>, {1, 32}, 128, 32, [](int i) { return 4 * i + 2; });
}
FAULT(misaligned_source) {
  run_ints("misaligned_source", misaligned_source<BROKEN>, {1, 32}, 136, 32, [](int i) { return 4 * i + 4; });
}
FAULT(misaligned_rows) {
  run_ints("misaligned_rows", misaligned_rows<BROKEN>, {1, 32}, 128, 32, [](int i) { return 4 * i; });
}
FAULT(copy_past_the_end) {
  run_ints("copy_past_the_end", copy_past_the_end<BROKEN>, {1, 32}, 96, 32, [](int i) { return i < 24 ? 4 * i : 0; });
}

}  // namespace
