#pragma once

__device__ float mix(float a, float b, float t);
