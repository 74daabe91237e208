#include "limits.hpp"

template <typename T, int N>
__global__ void __launch_bounds__(64) clamp_kernel(T* data) {
  const T most = static_cast<T>(MOST);
  for (int i = threadIdx.x; i < N; i += 64) data[i] = data[i] < most ? data[i] : most;
}

template __global__ void clamp_kernel<float, 128>(float*);
template __global__ void clamp_kernel<int, 256>(int*);
