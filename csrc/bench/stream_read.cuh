// Reads a buffer as fast as the memory gives it and keeps an XOR of it, so that no load can be dropped.
//
// grid: [blocks]; a grid-stride loop, each thread with UNROLL 16-byte loads in flight a turn.
// The loads bypass L1, as those of the attention kernels do: this is their ceiling.
#pragma once

#include "bench/params.h"
#include "common/memory.h"
#include "common/types.h"
#include "common/warp.h"
#include "ptx/ld_global.h"

namespace spark {

SPARK_DEVICE uint32_t fold(const Vec16& v) {
  return v.word[0] ^ v.word[1] ^ v.word[2] ^ v.word[3];
}

// XOR over the CTA, valid in thread 0.
template <int THREADS>
SPARK_DEVICE uint32_t block_xor(uint32_t x) {
  static_assert(THREADS % kWarpSize == 0, "whole warps");
  constexpr int WARPS = THREADS / kWarpSize;
  SHARED_ARRAY(uint32_t, warp_smem, WARPS);
#pragma unroll
  for (int step = kWarpSize / 2; step > 0; step /= 2) x ^= __shfl_xor_sync(kFullMask, x, step);
  if (lane_id() == 0) warp_smem[warp_id()] = x;
  __syncthreads();  // every warp's word is in warp_smem
  uint32_t all = 0;
  if (threadIdx.x == 0) {
#pragma unroll
    for (int warp = 0; warp < WARPS; ++warp) all ^= warp_smem[warp];
  }
  return all;
}

template <int UNROLL>
__global__ void __launch_bounds__(SPARK_BLOCK) stream_read_kernel(const __grid_constant__ StreamReadParams p) {
  const Vec16* data_gmem = static_cast<const Vec16*>(p.data);
  const int64_t stride = static_cast<int64_t>(gridDim.x) * SPARK_BLOCK;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * SPARK_BLOCK + threadIdx.x;
  uint32_t checksum = 0;
  for (int64_t first = thread; first < p.chunks; first += UNROLL * stride) {
    Vec16 chunk[UNROLL];
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
      const int64_t at = first + i * stride;
      chunk[i] = Vec16{};
      if (at < p.chunks) chunk[i] = ptx::ld_global_nc_16(data_gmem + at);
    }
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) checksum ^= fold(chunk[i]);
  }
  checksum = block_xor<SPARK_BLOCK>(checksum);
  if (threadIdx.x == 0) p.checksum[blockIdx.x] = checksum;
}

}  // namespace spark
