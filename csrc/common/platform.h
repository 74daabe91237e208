// The platform under every kernel: CUDA's own built-ins on a GPU, the emulator's in a host build. NVRTC brings the
// built-ins itself and has no host part.
// This header and the few beside it are the only ones that know which of the two it is.
#pragma once

#if defined(SPARK_EMULATOR)
#include "emulator/builtins.h"
#elif !defined(__CUDACC_RTC__)
#include <cuda_runtime.h>
#endif

#include "common/integers.h"

#define SPARK_DEVICE __device__ __forceinline__
#define SPARK_HOST_DEVICE __host__ __device__ __forceinline__
