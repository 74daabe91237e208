// Faults: accesses to shared memory that nothing orders. `here: TAG` marks a line that the report names.
#include "cases.h"

using namespace spark;
using namespace spark::broken;

namespace {

// Read before all have written.
template <bool BROKEN>
__global__ void missing_barrier(const int* in, int* out) {
  SHARED_ARRAY(int, tile_smem, 64);
  const int t = threadIdx.x;
  tile_smem[t] = in[t];  // here: missing_barrier write
  if constexpr (!BROKEN) __syncthreads();
  out[t] = tile_smem[63 - t];  // here: missing_barrier read
}

// Written again before all have read.
template <bool BROKEN>
__global__ void missing_barrier_before_reuse(const int* in, int* out) {
  SHARED_ARRAY(int, tile_smem, 64);
  const int t = threadIdx.x;
  int sum = 0;
  for (int step = 0; step < 2; ++step) {
    tile_smem[t] = in[64 * step + t];  // here: missing_barrier_before_reuse write
    __syncthreads();
    sum += tile_smem[63 - t];  // here: missing_barrier_before_reuse read
    if constexpr (!BROKEN) __syncthreads();
  }
  out[t] = sum;
}

// The warp-synchronous sum that relied on lanes in lockstep, before Volta.
template <bool BROKEN>
__global__ void missing_syncwarp(const int* in, int* out) {
  SHARED_ARRAY(int, sum_smem, 32);
  const int t = threadIdx.x;
  sum_smem[t] = in[t];
  __syncwarp();
  for (int step = 16; step > 0; step /= 2) {
    if (t < step) sum_smem[t] += sum_smem[t + step];  // here: missing_syncwarp
    if constexpr (!BROKEN) __syncwarp();
  }
  if (t == 0) out[0] = sum_smem[0];
}

// Each half of the warp waits for itself, and reads what the other wrote.
template <bool BROKEN>
__global__ void syncwarp_without_partner(const int* in, int* out) {
  SHARED_ARRAY(int, tile_smem, 32);
  const int t = threadIdx.x;
  tile_smem[t] = in[t];  // here: syncwarp_without_partner write
  __syncwarp(!BROKEN ? kFullMask : t < 16 ? 0x0000ffffu : 0xffff0000u);
  out[t] = tile_smem[t ^ 16];  // here: syncwarp_without_partner read
}

// A flag that some set while others look, by plain accesses. The result is the same either way.
template <bool BROKEN>
__global__ void plain_flag(const int* in, int* out) {
  SHARED_ARRAY(int, found_smem, 1);
  const int t = threadIdx.x;
  if (t == 0) found_smem[0] = 0;
  __syncthreads();
  bool found;
  if constexpr (BROKEN) {
    if (in[t] == 40) found_smem[0] = 1;  // here: plain_flag write
    found = found_smem[0] != 0;          // here: plain_flag read
  } else {
    if (in[t] == 40) atomicExch(found_smem, 1);
    found = atomicAdd(found_smem, 0) != 0;
  }
  out[t] = in[found ? t : t ^ 1] / 2;
}

// Increments that overwrite each other.
template <bool BROKEN>
__global__ void plain_counter(const int* in, int* out) {
  SHARED_ARRAY(int, count_smem, 1);
  const int t = threadIdx.x;
  if (t == 0) count_smem[0] = 0;
  __syncthreads();
  if constexpr (BROKEN) {
    if (in[t] < 63) count_smem[0] += 1;  // here: plain_counter
  } else {
    if (in[t] < 63) atomicAdd(count_smem, 1);
  }
  __syncthreads();
  if (t == 0) out[0] = count_smem[0];
}

FAULT(missing_barrier) {
  run_ints("missing_barrier", missing_barrier<BROKEN>, {1, 64}, 64, 64, [](int i) { return 63 - i; });
}
FAULT(missing_barrier_before_reuse) {
  run_ints("missing_barrier_before_reuse", missing_barrier_before_reuse<BROKEN>, {1, 64}, 128, 64,
           [](int i) { return 2 * (63 - i) + 64; });
}
FAULT(missing_syncwarp) {
  run_ints("missing_syncwarp", missing_syncwarp<BROKEN>, {1, 32}, 32, 1, [](int) { return 496; });
}
FAULT(syncwarp_without_partner) {
  run_ints("syncwarp_without_partner", syncwarp_without_partner<BROKEN>, {1, 32}, 32, 32, [](int i) { return i ^ 16; });
}
FAULT(plain_flag) {
  run_ints("plain_flag", plain_flag<BROKEN>, {1, 64}, 64, 64, [](int i) { return i / 2; });
}
FAULT(plain_counter) {
  run_ints("plain_counter", plain_counter<BROKEN>, {1, 64}, 64, 1, [](int) { return 63; });
}

}  // namespace
