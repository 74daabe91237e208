// attn_prefill_split_q: prefill on CUDA cores. Axes: SPARK_DTYPE, SPARK_HEAD_DIM, SPARK_LANES, SPARK_PAGED.
// Grid and work of a CTA: prefill/split_q.cuh.
#include "prefill/split_q.cuh"

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

Status launch_attn_prefill_split_q(const void* params, void* stream) {
  constexpr int ROWS = SPARK_BLOCK / SPARK_LANES;
  constexpr int TILE = SCALAR_PREFILL_TILE<SPARK_HEAD_DIM>;
  const PrefillParams& p = *static_cast<const PrefillParams*>(params);
  const Status checked = check_prefill(p);
  if (checked.code != STATUS_OK) return checked;
  return SPARK_LAUNCH((attn_prefill_split_q_kernel<SPARK_DTYPE, SPARK_HEAD_DIM, SPARK_LANES, ROWS, TILE, Rows>),
                      prefill_launch_config(p, ROWS, stream), p);
}

SPARK_REGISTER_VARIANT("prefill", launch_attn_prefill_split_q);

}  // namespace
}  // namespace spark
