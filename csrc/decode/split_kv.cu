// attn_decode_split_kv: launcher and entry. Axes: SPARK_DTYPE, SPARK_HEAD_DIM.
#include "decode/split_kv.cuh"

#include "common/launch.h"
#include "common/variant.h"
#include "decode/launch.h"

namespace spark {
namespace {

Status launch_attn_decode_split_kv(const void* params, void* stream) {
  const DecodeParams& p = *static_cast<const DecodeParams*>(params);
  const Status checked = check_decode(p);
  if (checked.code != STATUS_OK) return checked;
  return SPARK_LAUNCH((attn_decode_split_kv_kernel<SPARK_DTYPE, SPARK_HEAD_DIM>),
                      decode_launch_config(p, SCALAR_ROWS, stream), p);
}

SPARK_REGISTER_VARIANT("decode", launch_attn_decode_split_kv);

}  // namespace
}  // namespace spark
