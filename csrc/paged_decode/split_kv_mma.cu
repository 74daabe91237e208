// attn_paged_decode_split_kv_mma: decode on tensor cores, K and V in pages. Axes: SPARK_DTYPE, SPARK_HEAD_DIM,
// SPARK_STAGES, SPARK_BLOCK_KV. Grid and work of a CTA: attention/split_kv_mma.cuh.
#include "attention/split_kv_mma.cuh"

#include "attention/decode_launch.cuh"
#include "common/launch.h"
#include "common/variant.h"

namespace spark {

template <typename T, int HEAD_DIM, int STAGES, int BLOCK_KV, int ROWS>
__global__ void __launch_bounds__(SPARK_BLOCK, SPARK_MIN_BLOCKS)
    attn_paged_decode_split_kv_mma_kernel(const __grid_constant__ DecodeParams p) {
  reduce_split_kv_mma<T, HEAD_DIM, STAGES, BLOCK_KV, PagedRows, QFrag::resident, ROWS>(p);
}

namespace {

Status launch_attn_paged_decode_split_kv_mma(const void* params, void* stream) {
  const DecodeParams& p = *static_cast<const DecodeParams*>(params);
  const Status checked = check_paged_decode(p);
  if (checked.code != STATUS_OK) return checked;
  return SPARK_LAUNCH(
      (attn_paged_decode_split_kv_mma_kernel<SPARK_DTYPE, SPARK_HEAD_DIM, SPARK_STAGES, SPARK_BLOCK_KV, SPARK_ROWS>),
      decode_launch_config(p, SPARK_ROWS, stream), p);
}

SPARK_REGISTER_VARIANT("paged_decode", launch_attn_paged_decode_split_kv_mma);

}  // namespace
}  // namespace spark
