// Faults: barriers and warp-wide functions that not all reach, or that wait for the wrong ones. `here: TAG` marks a
// line that the report names.
#include "cases.h"
#include "ptx/barrier.h"

using namespace spark;
using namespace spark::broken;

namespace {

// Lanes of one warp in two barriers.
template <bool BROKEN>
__global__ void divergent_barrier(const int* in, int* out) {
  SHARED_ARRAY(int, tile_smem, 64);
  const int t = threadIdx.x;
  if constexpr (BROKEN) {
    if (t % 32 < 16) {
      tile_smem[t] = in[t];
      __syncthreads();  // here: divergent_barrier low
    } else {
      tile_smem[t] = in[t ^ 1] ^ 1;
      __syncthreads();  // here: divergent_barrier high
    }
  } else {
    tile_smem[t] = t % 32 < 16 ? in[t] : in[t ^ 1] ^ 1;
    __syncthreads();
  }
  out[t] = tile_smem[63 - t];
}

// Some lanes pass by the barrier and then need those that wait in it.
template <bool BROKEN>
__global__ void barrier_missed_by_lanes(const int* in, int* out) {
  const int t = threadIdx.x;
  if (!BROKEN || t < 40) __syncthreads();                      // here: barrier_missed_by_lanes barrier
  out[t] = in[t] + __shfl_sync(kFullMask, in[t], t % 32 ^ 8);  // here: barrier_missed_by_lanes shuffle
}

// 40 rows over 32 lanes: some go round twice, the others once.
template <bool BROKEN>
__global__ void barrier_in_an_uneven_loop(const int* in, int* out) {
  const int t = threadIdx.x;
  int sum = 0;
  for (int row = t; row < (BROKEN ? 40 : 64); row += 32) {
    if (row < 40) sum += in[row];
    __syncthreads();  // here: uneven barrier
  }
  out[t] = __reduce_add_sync(kFullMask, static_cast<unsigned>(sum));  // here: uneven sum
}

// The producer arrives at one barrier, the consumer waits at another.
template <bool BROKEN>
__global__ void wrong_barrier_id(const int* in, int* out) {
  SHARED_ARRAY(int, tile_smem, 32);
  const int t = threadIdx.x;
  if (t < 32) {
    tile_smem[t] = in[t];
    ptx::bar_arrive(1, 64);
  } else {
    ptx::bar_sync(BROKEN ? 2 : 1, 64);  // here: wrong_barrier_id
    out[t - 32] = tile_smem[63 - t];
  }
}

// Two warps take part, the count says three.
template <bool BROKEN>
__global__ void wrong_barrier_count(const int* in, int* out) {
  SHARED_ARRAY(int, tile_smem, 32);
  const int t = threadIdx.x;
  if (t < 32) {
    tile_smem[t] = in[t];
    ptx::bar_arrive(1, BROKEN ? 96 : 64);
  } else if (t < 64) {
    ptx::bar_sync(1, BROKEN ? 96 : 64);  // here: wrong_barrier_count
    out[t - 32] = tile_smem[63 - t];
  }
}

// The count says one warp, so that each passes without the other.
template <bool BROKEN>
__global__ void barrier_counts_one_warp(const int* in, int* out) {
  SHARED_ARRAY(int, tile_smem, 64);
  const int t = threadIdx.x;
  tile_smem[t] = in[t];  // here: barrier_counts_one_warp write
  ptx::bar_sync(1, BROKEN ? 32 : 64);
  out[t] = tile_smem[63 - t];  // here: barrier_counts_one_warp read
}

// A full mask where only half of the warp is.
template <bool BROKEN>
__global__ void wrong_shuffle_mask(const int* in, int* out) {
  const int t = threadIdx.x;
  if (t < 16) {
    const unsigned mask = BROKEN ? kFullMask : 0x0000ffffu;
    out[t] = __shfl_xor_sync(mask, in[t], 1);  // here: wrong_shuffle_mask
  }
}

// A lane's value that the mask leaves out.
template <bool BROKEN>
__global__ void shuffle_from_outside_the_mask(const int* in, int* out) {
  const int t = threadIdx.x;
  if (t < 8) {
    out[t] = __shfl_sync(0x000000ffu, in[t], BROKEN ? 9 : 7);  // here: shuffle_from_outside_the_mask
  }
}

FAULT(divergent_barrier) {
  run_ints("divergent_barrier", divergent_barrier<BROKEN>, {1, 64}, 64, 64, [](int i) { return 63 - i; });
}
FAULT(barrier_missed_by_lanes) {
  run_ints("barrier_missed_by_lanes", barrier_missed_by_lanes<BROKEN>, {1, 64}, 64, 64,
           [](int i) { return i + (i ^ 8); });
}
FAULT(barrier_in_an_uneven_loop) {
  run_ints("barrier_in_an_uneven_loop", barrier_in_an_uneven_loop<BROKEN>, {1, 32}, 40, 32, [](int) { return 780; });
}
FAULT(wrong_barrier_id) {
  run_ints("wrong_barrier_id", wrong_barrier_id<BROKEN>, {1, 64}, 32, 32, [](int i) { return 31 - i; });
}
FAULT(wrong_barrier_count) {
  run_ints("wrong_barrier_count", wrong_barrier_count<BROKEN>, {1, 96}, 32, 32, [](int i) { return 31 - i; });
}
FAULT(barrier_counts_one_warp) {
  run_ints("barrier_counts_one_warp", barrier_counts_one_warp<BROKEN>, {1, 64}, 64, 64, [](int i) { return 63 - i; });
}
FAULT(wrong_shuffle_mask) {
  run_ints("wrong_shuffle_mask", wrong_shuffle_mask<BROKEN>, {1, 32}, 32, 16, [](int i) { return i ^ 1; });
}
FAULT(shuffle_from_outside_the_mask) {
  run_ints("shuffle_from_outside_the_mask", shuffle_from_outside_the_mask<BROKEN>, {1, 32}, 32, 8,
           [](int) { return 7; });
}

}  // namespace
