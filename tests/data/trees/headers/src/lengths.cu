#include "geometry/length.h"

// Two kernels: neither has __launch_bounds__, so nobody knows their blocks.
__global__ void lengths(const Pair* in, float* out) { out[threadIdx.x] = length(in[threadIdx.x]); }
__global__ void shared_lengths(const Pair* in, float* out) {
  __shared__ float kept[128];
  kept[threadIdx.x] = length(in[threadIdx.x]);
  __syncthreads();
  out[threadIdx.x] = kept[127 - threadIdx.x];
}
