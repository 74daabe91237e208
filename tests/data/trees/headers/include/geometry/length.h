#pragma once
#include "geometry/pair.cuh"

__device__ inline float length(Pair p) { return sqrtf(p.x * p.x + p.y * p.y); }
