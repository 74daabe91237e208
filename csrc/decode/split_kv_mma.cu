// attn_decode_split_kv_mma: decode on tensor cores, contiguous K and V. Axes: SPARK_DTYPE, SPARK_HEAD_DIM,
// SPARK_STAGES, SPARK_BLOCK_KV, SPARK_Q_FRAG, SPARK_ROWS. Grid and work of a CTA: attention/split_kv_mma.cuh.
#include "attention/split_kv_mma.cuh"

#include "attention/decode_launch.cuh"
#include "common/launch.h"
#include "common/variant.h"
#include "ptx/clock.h"

namespace spark {

template <typename T, int HEAD_DIM, int STAGES, int BLOCK_KV, QFrag Q_FRAG, int ROWS>
__global__ void __launch_bounds__(SPARK_BLOCK, SPARK_MIN_BLOCKS)
    attn_decode_split_kv_mma_kernel(const __grid_constant__ DecodeParams p) {
  reduce_split_kv_mma<T, HEAD_DIM, STAGES, BLOCK_KV, ContiguousRows, Q_FRAG, ROWS>(p);
  if constexpr (SPARK_PLANTED_WORK > 0) ptx::wait_cycles(SPARK_PLANTED_WORK);
}

namespace {

Status launch_attn_decode_split_kv_mma(const void* params, void* stream) {
  const DecodeParams& p = *static_cast<const DecodeParams*>(params);
  const Status checked = check_decode(p);
  if (checked.code != STATUS_OK) return checked;
  return SPARK_LAUNCH((attn_decode_split_kv_mma_kernel<SPARK_DTYPE, SPARK_HEAD_DIM, SPARK_STAGES, SPARK_BLOCK_KV,
                                                       QFrag::SPARK_Q_FRAG, SPARK_ROWS>),
                      decode_launch_config(p, SPARK_ROWS, stream), p);
}

SPARK_REGISTER_VARIANT("decode", launch_attn_decode_split_kv_mma);

}  // namespace
}  // namespace spark
