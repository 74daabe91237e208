// CUDA's language for a host compiler: keywords, built-in variables, barriers. Included by common/platform.h.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <vector_functions.h>
#include <vector_types.h>

#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "emulator/async_copy.h"
#include "emulator/conversions.h"
#include "emulator/runtime.h"
#include "emulator/shared_memory.h"

#undef __launch_bounds__
#undef __grid_constant__
#undef __shared__
#define __launch_bounds__(...)
#define __grid_constant__
// A plain __shared__ would be a variable of one thread.
#define __shared__ static_assert(false, "use SHARED_ARRAY or DYNAMIC_SHARED of common/memory.h");

#define threadIdx (::spark::emulator::this_thread()->thread_idx)
#define blockIdx (::spark::emulator::this_thread()->block_idx)
#define blockDim (::spark::emulator::this_thread()->block_dim)
#define gridDim (::spark::emulator::this_thread()->grid_dim)
inline constexpr int warpSize = 32;

// Instead of ending the process: the launch returns an error.
#undef assert
#define assert(condition) \
  ((condition) ? (void)0 : ::spark::emulator::fail(::spark::emulator::Site::here(), "assertion failed: %s", #condition))

inline void __trap(spark::emulator::Site at = spark::emulator::Site::here()) {
  spark::emulator::fail(at, "trap");
}

inline void __syncthreads(spark::emulator::Site at = spark::emulator::Site::here()) {
  spark::emulator::run_barrier({"__syncthreads", 0, 0, true, false}, at);
}
inline int __syncthreads_count(int predicate, spark::emulator::Site at = spark::emulator::Site::here()) {
  return spark::emulator::run_barrier({"__syncthreads_count", 0, 0, true, predicate != 0}, at);
}
inline int __syncthreads_or(int predicate, spark::emulator::Site at = spark::emulator::Site::here()) {
  return spark::emulator::run_barrier({"__syncthreads_or", 0, 0, true, predicate != 0}, at) != 0;
}
inline int __syncthreads_and(int predicate, spark::emulator::Site at = spark::emulator::Site::here()) {
  return spark::emulator::run_barrier({"__syncthreads_and", 0, 0, true, predicate == 0}, at) == 0;
}

inline size_t __cvta_generic_to_shared(const void* address) {
  return spark::emulator::shared_offset(address);
}

#include "emulator/atomics.h"
#include "emulator/intrinsics.h"
#include "emulator/warp_functions.h"
