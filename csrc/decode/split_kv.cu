// attn_decode_split_kv: launcher and entry. Axes: SPARK_DTYPE, SPARK_HEAD_DIM.
#include "decode/split_kv.cuh"

#include "common/launch.h"
#include "common/variant.h"
#include "decode/checks.h"

namespace spark {
namespace {

Status launch_attn_decode_split_kv(const void* params, void* stream) {
  const DecodeParams& p = *static_cast<const DecodeParams*>(params);
  const Status checked = check_decode(p);
  if (checked.code != STATUS_OK) return checked;
  const int passes = ceil_div(p.num_qo_heads / p.num_kv_heads * p.qo_len, SCALAR_ROWS);
  LaunchConfig config;
  config.grid = dim3(p.num_kv_heads * passes, p.num_splits, p.batch);
  config.block = dim3(SPARK_BLOCK);
  config.dynamic_smem = SPARK_DYNAMIC_SMEM;
  config.stream = stream;
  return SPARK_LAUNCH((attn_decode_split_kv_kernel<SPARK_DTYPE, SPARK_HEAD_DIM>), config, p);
}

SPARK_REGISTER_VARIANT("decode", launch_attn_decode_split_kv);

}  // namespace
}  // namespace spark
