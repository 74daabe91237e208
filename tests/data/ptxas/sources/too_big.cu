__global__ void too_big_kernel(float* out) {
  __shared__ float tile[16384];
  tile[threadIdx.x] = out[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x ^ 1];
}
