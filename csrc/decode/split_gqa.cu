// fa_split_gqa: decode on CUDA cores for groups of query heads, contiguous or paged K and V. Axes: SPARK_DTYPE,
// SPARK_HEAD_DIM, SPARK_STAGES, SPARK_TILE, SPARK_PAGED. Grid and work of a CTA: attention/split_gqa.cuh.
#include "attention/split_gqa.cuh"

#include "attention/decode_launch.cuh"
#include "common/launch.h"
#include "common/variant.h"

namespace spark {

template <typename T, int HEAD_DIM, int TILE, int STAGES, typename Rows>
__global__ void __launch_bounds__(SPARK_BLOCK, SPARK_MIN_BLOCKS)
    fa_split_gqa_kernel(const __grid_constant__ DecodeParams p) {
  reduce_split_gqa<T, HEAD_DIM, TILE, STAGES, Rows>(p);
}

namespace {

#if SPARK_PAGED
using KvRows = PagedRows;
#define SPARK_OPERATOR "paged_decode"
#else
using KvRows = ContiguousRows;
#define SPARK_OPERATOR "decode"
#endif

Status launch_fa_split_gqa(const void* params, void* stream) {
  const DecodeParams& p = *static_cast<const DecodeParams*>(params);
#if SPARK_PAGED
  const Status checked = check_paged_decode(p);
#else
  const Status checked = check_decode(p);
#endif
  if (checked.code != STATUS_OK) return checked;
  LaunchConfig config = decode_launch_config(p, GQA_WARPS, stream);
  // 12 rows are two CTAs of 6 warps, not one of 8 and one of 4: no warp copies tiles for a row that is not there
  const int rows = p.group * p.qo_len;
  const int passes = ceil_div(rows, GQA_WARPS);
  config.block = dim3(kWarpSize * ceil_div(rows, passes));
  return SPARK_LAUNCH((fa_split_gqa_kernel<SPARK_DTYPE, SPARK_HEAD_DIM, SPARK_TILE, SPARK_STAGES, KvRows>), config, p);
}

SPARK_REGISTER_VARIANT(SPARK_OPERATOR, launch_fa_split_gqa);

}  // namespace
}  // namespace spark
