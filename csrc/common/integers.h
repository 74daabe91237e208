// Integer types of a fixed width and size_t, for a host compiler, nvcc and NVRTC: the one place that knows where they
// come from.
#pragma once

#if defined(__CUDACC_RTC__)
#include <cuda/std/cstddef>
#include <cuda/std/cstdint>
#else
#include <cstddef>
#include <cstdint>
#endif
