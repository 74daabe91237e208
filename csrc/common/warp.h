// Who a thread is inside its warp, and reductions over a warp or over the four lanes that share an mma row.
#pragma once

#include "common/platform.h"

namespace spark {

inline constexpr int kWarpSize = 32;
inline constexpr unsigned kFullMask = 0xffffffffu;

// Blocks are one-dimensional wherever these are used.
SPARK_DEVICE int lane_id() {
  return static_cast<int>(threadIdx.x) % kWarpSize;
}
SPARK_DEVICE int warp_id() {
  return static_cast<int>(threadIdx.x) / kWarpSize;
}

#if defined(SPARK_EMULATOR)

using emulator::Site;  // the line of the caller, for errors
inline float warp_max(float x, Site at = Site::here()) {
  return emulator::reduce_lanes(emulator::kWarpMax, x, at);
}
inline float warp_sum(float x, Site at = Site::here()) {
  return emulator::reduce_lanes(emulator::kWarpSum, x, at);
}
inline float quad_max(float x, Site at = Site::here()) {
  return emulator::reduce_lanes(emulator::kQuadMax, x, at);
}
inline float quad_sum(float x, Site at = Site::here()) {
  return emulator::reduce_lanes(emulator::kQuadSum, x, at);
}

#else

SPARK_DEVICE float warp_max(float x) {
#pragma unroll
  for (int step = kWarpSize / 2; step > 0; step /= 2) {
    x = fmaxf(x, __shfl_xor_sync(kFullMask, x, step));
  }
  return x;
}

SPARK_DEVICE float warp_sum(float x) {
#pragma unroll
  for (int step = kWarpSize / 2; step > 0; step /= 2) {
    x += __shfl_xor_sync(kFullMask, x, step);
  }
  return x;
}

// Over lanes 4i … 4i+3, which hold the same rows of an m16n8k16 accumulator.
SPARK_DEVICE float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(kFullMask, x, 1));
  return fmaxf(x, __shfl_xor_sync(kFullMask, x, 2));
}

SPARK_DEVICE float quad_sum(float x) {
  x += __shfl_xor_sync(kFullMask, x, 1);
  return x + __shfl_xor_sync(kFullMask, x, 2);
}

#endif

// Over the LANES neighbouring lanes that `mask` names; lanes of other groups may be elsewhere meanwhile.
template <int LANES>
SPARK_DEVICE float group_sum(float x, unsigned mask) {
#pragma unroll
  for (int step = LANES / 2; step > 0; step /= 2) x += __shfl_xor_sync(mask, x, step);
  return x;
}

}  // namespace spark
