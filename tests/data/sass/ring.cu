extern "C" __global__ void __launch_bounds__(32) scale_rows(float* out, const float* in, int rows, int stride) {
  __shared__ float tile[32];
  float total = 0.0f;  // of one column
#pragma unroll 1
  for (int row = 0; row < rows; ++row) {
    tile[threadIdx.x] = in[row * stride + threadIdx.x];
    __syncthreads();
    total = fmaf(tile[31 - threadIdx.x], 0.5f, total);
    __syncthreads();
  }
  out[threadIdx.x] = exp2f(total);
}
