__device__ float table[256];
__constant__ float weights[16];
__global__ void four_barriers_kernel(float* out) {
  __shared__ float tile[4];
  tile[threadIdx.x & 3] = table[threadIdx.x] * weights[threadIdx.x & 15];
  asm volatile("bar.sync 3, 64;");
  out[threadIdx.x] = tile[(threadIdx.x + 1) & 3];
}
