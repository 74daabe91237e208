#include "mix.cuh"

// No kernel: device code for others, which needs -rdc=true.
__device__ float mix(float a, float b, float t) { return a + t * (b - a); }
