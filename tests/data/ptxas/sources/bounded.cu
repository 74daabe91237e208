__global__ void __launch_bounds__(256) bounded_kernel(float* out, const float* x, int n) {
  float acc[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) acc[i] = x[i * n + threadIdx.x];
  for (int k = 0; k < n; ++k)
#pragma unroll
    for (int i = 0; i < 64; ++i) acc[i] = acc[i] * acc[(i + 7) % 64] + x[k];
#pragma unroll
  for (int i = 0; i < 64; ++i) out[i * n + threadIdx.x] = acc[i];
}
