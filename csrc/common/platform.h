// The platform under every kernel: CUDA's own built-ins on a GPU, the emulator's in a host build.
// This header and the few beside it are the only ones that know which of the two it is.
#pragma once

#if defined(SPARK_EMULATOR)
#include "emulator/builtins.h"
#else
#include <cuda_runtime.h>
#endif

#include <cstddef>
#include <cstdint>

#define SPARK_DEVICE __device__ __forceinline__
#define SPARK_HOST_DEVICE __host__ __device__ __forceinline__
