// attn_decode_split_kv_mma: launcher and entry. Axes: SPARK_DTYPE, SPARK_HEAD_DIM, SPARK_STAGES, SPARK_BLOCK_KV.
#include "decode/split_kv_mma.cuh"

#include "common/launch.h"
#include "common/variant.h"
#include "decode/checks.h"

namespace spark {
namespace {

Status launch_attn_decode_split_kv_mma(const void* params, void* stream) {
  const DecodeParams& p = *static_cast<const DecodeParams*>(params);
  const Status checked = check_decode(p);
  if (checked.code != STATUS_OK) return checked;
  const int passes = ceil_div(p.num_qo_heads / p.num_kv_heads * p.qo_len, MMA_ROWS);
  LaunchConfig config;
  config.grid = dim3(p.num_kv_heads * passes, p.num_splits, p.batch);
  config.block = dim3(SPARK_BLOCK);
  config.dynamic_smem = SPARK_DYNAMIC_SMEM;
  config.stream = stream;
  return SPARK_LAUNCH((attn_decode_split_kv_mma_kernel<SPARK_DTYPE, SPARK_HEAD_DIM, SPARK_STAGES, SPARK_BLOCK_KV>),
                      config, p);
}

SPARK_REGISTER_VARIANT("decode", launch_attn_decode_split_kv_mma);

}  // namespace
}  // namespace spark
