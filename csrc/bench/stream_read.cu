// stream_read: launcher and entry. Axis: SPARK_UNROLL.
#include "bench/stream_read.cuh"

#include "common/launch.h"
#include "common/variant.h"

namespace spark {
namespace {

Status launch_stream_read(const void* params, void* stream) {
  const StreamReadParams& p = *static_cast<const StreamReadParams*>(params);
  if (p.chunks < 0) return error("chunks is %lld, accepted is 0 or more", static_cast<long long>(p.chunks));
  if (p.blocks < 1) return error("blocks is %d, accepted is 1 or more", p.blocks);
  if (reinterpret_cast<uintptr_t>(p.data) % sizeof(Vec16) != 0) return error("data is not 16-byte aligned");
  LaunchConfig config;
  config.grid = dim3(p.blocks);
  config.block = dim3(SPARK_BLOCK);
  config.dynamic_smem = SPARK_DYNAMIC_SMEM;
  config.stream = stream;
  return SPARK_LAUNCH((stream_read_kernel<SPARK_UNROLL>), config, p);
}

SPARK_REGISTER_VARIANT("bench", launch_stream_read);

}  // namespace
}  // namespace spark
