// A kernel with a device function that stays a call, and one that spills.
__device__ __noinline__ float chain(const float* x, int n) {
  float acc[48];
#pragma unroll
  for (int i = 0; i < 48; ++i) acc[i] = x[i * n];
  for (int k = 0; k < n; ++k)
#pragma unroll
    for (int i = 0; i < 48; ++i) acc[i] = acc[i] * acc[(i + 7) % 48] + x[k];
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 48; ++i) sum += acc[i];
  return sum;
}
namespace demo {
template <int HEAD_DIM, typename T>
__global__ void caller_kernel(T* out, const T* x, int n) {
  __shared__ T tile[HEAD_DIM];
  tile[threadIdx.x % HEAD_DIM] = x[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = chain(tile, n) + tile[(threadIdx.x + 1) % HEAD_DIM];
}
template __global__ void caller_kernel<64, float>(float*, const float*, int);
}  // namespace demo
__global__ void spill_kernel(float* out, const float* x, int n) {
  float acc[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) acc[i] = x[i * n + threadIdx.x];
  for (int k = 0; k < n; ++k)
#pragma unroll
    for (int i = 0; i < 64; ++i) acc[i] = acc[i] * acc[(i + 7) % 64] + x[k];
#pragma unroll
  for (int i = 0; i < 64; ++i) out[i * n + threadIdx.x] = acc[i];
}
__global__ void stack_kernel(float* out, const float* x, const int* where, int n) {
  float local[64];
  for (int i = 0; i < 64; ++i) local[i] = x[i];
  for (int i = 0; i < n; ++i) local[where[i] & 63] += 1.0f;
  out[threadIdx.x] = local[where[threadIdx.x] & 63];
}
