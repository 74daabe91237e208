__global__ void broken_kernel(float* out) { out[threadIdx.x] = undefined_name; }
