// attn_decode_split_kv_mma: launcher and entry. Axes: SPARK_DTYPE, SPARK_HEAD_DIM, SPARK_STAGES, SPARK_BLOCK_KV.
#include "decode/split_kv_mma.cuh"

#include "common/launch.h"
#include "common/variant.h"
#include "decode/launch.h"

namespace spark {
namespace {

Status launch_attn_decode_split_kv_mma(const void* params, void* stream) {
  const DecodeParams& p = *static_cast<const DecodeParams*>(params);
  const Status checked = check_decode(p);
  if (checked.code != STATUS_OK) return checked;
  return SPARK_LAUNCH((attn_decode_split_kv_mma_kernel<SPARK_DTYPE, SPARK_HEAD_DIM, SPARK_STAGES, SPARK_BLOCK_KV>),
                      decode_launch_config(p, MMA_ROWS, stream), p);
}

SPARK_REGISTER_VARIANT("decode", launch_attn_decode_split_kv_mma);

}  // namespace
}  // namespace spark
