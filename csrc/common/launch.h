// launch(): one kernel launch, checked, on a GPU or in the emulator.
//   return SPARK_LAUNCH(decode_kernel<dtype, 128>, config, params);
#pragma once

#include "common/platform.h"
#include "common/status.h"

namespace spark {

struct LaunchConfig {
  dim3 grid;
  dim3 block;
  size_t dynamic_smem = 0;
  void* stream = nullptr;  // cudaStream_t
  bool dependent = false;  // may start before the kernel ahead of it ends; below sm_90 this has no effect
  dim3 cluster = 1;        // blocks that share their shared memory, at most 8; the grid is a multiple; sm_90 and up
};

// The length of the first argument in the text of SPARK_LAUNCH's arguments: up to the first comma outside <> and ().
inline int kernel_name_length(const char* text) {
  int depth = 0, length = 0;
  for (; text[length] != '\0'; ++length) {
    const char c = text[length];
    if (c == '<' || c == '(') ++depth;
    if (c == '>' || c == ')') --depth;
    if (c == ',' && depth == 0) break;
  }
  return length;
}

}  // namespace spark

// SPARK_LAUNCH(kernel, config, args...); the kernel may be a template-id with commas.
#define SPARK_LAUNCH(...) ::spark::launch_named(#__VA_ARGS__, __VA_ARGS__)

#if defined(SPARK_EMULATOR)

namespace spark {

template <typename Kernel, typename... Args>
Status launch_named(const char* text, Kernel kernel, const LaunchConfig& config, Args... args) {
  const auto call = [&] { kernel(args...); };
  const emulator::Grid grid{{text, static_cast<size_t>(kernel_name_length(text))},
                            config.grid,
                            config.block,
                            config.dynamic_smem,
                            config.dependent,
                            config.cluster};
  return emulator::run_grid(grid, [](const void* closure) { (*static_cast<const decltype(call)*>(closure))(); }, &call);
}

}  // namespace spark

#else

namespace spark {
namespace detail {

inline Status cuda_status(const char* text, const char* step, cudaError_t code) {
  if (code == cudaSuccess) return ok();
  return error("%.*s: %s: %s (%s)", kernel_name_length(text), text, step, cudaGetErrorString(code),
               cudaGetErrorName(code));
}

// A kernel keeps its raised limit, so the last one raised by this thread is not raised again.
inline cudaError_t allow_dynamic_smem(const void* kernel, size_t bytes) {
  thread_local const void* last_kernel = nullptr;
  thread_local int last_device = -1;
  thread_local size_t last_bytes = 0;
  int device = 0;
  if (const cudaError_t code = cudaGetDevice(&device); code != cudaSuccess) return code;
  if (kernel == last_kernel && device == last_device && bytes <= last_bytes) return cudaSuccess;
  const cudaError_t code =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (code == cudaSuccess) {
    last_kernel = kernel;
    last_device = device;
    last_bytes = bytes;
  }
  return code;
}

// Dependent launch and clusters came with it.
inline bool is_sm_90_or_later() {
  int device = 0, major = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess && major >= 9;
}

}  // namespace detail

template <typename Kernel, typename... Args>
Status launch_named(const char* text, Kernel kernel, const LaunchConfig& config, Args... args) {
  // Without the opt-in 48 KiB are the limit of static and dynamic shared memory together, so any dynamic size may need
  // it.
  if (config.dynamic_smem > 0) {
    const cudaError_t code = detail::allow_dynamic_smem(reinterpret_cast<const void*>(kernel), config.dynamic_smem);
    if (code != cudaSuccess) {
      cudaGetLastError();  // or the next launch would report this one's error
      return detail::cuda_status(text, "raising the limit of dynamic shared memory", code);
    }
  }
  cudaLaunchConfig_t launch = {};
  launch.gridDim = config.grid;
  launch.blockDim = config.block;
  launch.dynamicSmemBytes = config.dynamic_smem;
  launch.stream = static_cast<cudaStream_t>(config.stream);
  cudaLaunchAttribute attributes[2] = {};
  launch.attrs = attributes;
  if (config.dependent && detail::is_sm_90_or_later()) {
    cudaLaunchAttribute& attribute = attributes[launch.numAttrs++];
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
  }
  const dim3 cluster = config.cluster;
  if (cluster.x != 1 || cluster.y != 1 || cluster.z != 1) {
    if (!detail::is_sm_90_or_later()) {
      return error("%.*s: cluster is (%u,%u,%u), accepted below sm_90 is (1,1,1)", kernel_name_length(text), text,
                   cluster.x, cluster.y, cluster.z);
    }
    cudaLaunchAttribute& attribute = attributes[launch.numAttrs++];
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = cluster.x;
    attribute.val.clusterDim.y = cluster.y;
    attribute.val.clusterDim.z = cluster.z;
  }
  const cudaError_t code = cudaLaunchKernelEx(&launch, kernel, args...);
  if (code != cudaSuccess) cudaGetLastError();
  return detail::cuda_status(text, "launch", code);
}

}  // namespace spark

#endif

namespace spark {

template <typename Kernel, typename... Args>
Status launch(Kernel kernel, const LaunchConfig& config, Args... args) {
  return launch_named("kernel", kernel, config, args...);
}

}  // namespace spark
