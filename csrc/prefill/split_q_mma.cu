// attn_prefill_split_q_mma: prefill on tensor cores. Axes: SPARK_DTYPE, SPARK_HEAD_DIM, SPARK_PAGED.
// Grid and work of a CTA: prefill/split_q_mma.cuh.
#include "prefill/split_q_mma.cuh"

#include "common/launch.h"
#include "common/variant.h"
#include "prefill/launch.cuh"

namespace spark {
namespace {

#if SPARK_PAGED
using Rows = PagedRows;
#else
using Rows = ContiguousRows;
#endif

Status launch_attn_prefill_split_q_mma(const void* params, void* stream) {
  const PrefillParams& p = *static_cast<const PrefillParams*>(params);
  const Status checked = check_prefill(p);
  if (checked.code != STATUS_OK) return checked;
  return SPARK_LAUNCH((attn_prefill_split_q_mma_kernel<SPARK_DTYPE, SPARK_HEAD_DIM, Rows>),
                      prefill_launch_config(p, PrefillTile<SPARK_HEAD_DIM>::BLOCK_Q, stream), p);
}

SPARK_REGISTER_VARIANT("prefill", launch_attn_prefill_split_q_mma);

}  // namespace
}  // namespace spark
