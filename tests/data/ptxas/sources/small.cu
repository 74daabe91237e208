// One small template kernel: static shared memory and one barrier.
template <int N, typename T> __global__ void __launch_bounds__(128) small_kernel(T* out, const T* in, int n) {
  __shared__ T tile[N];
  int i = threadIdx.x;
  tile[i % N] = in[i];
  __syncthreads();
  if (i < n) out[i] = tile[(i + 1) % N];
}
template __global__ void small_kernel<32, float>(float*, const float*, int);
