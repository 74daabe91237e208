// attn_combine: launcher and entry. Axes: SPARK_DTYPE, SPARK_HEAD_DIM.
#include "combine/combine.cuh"

#include "attention/checks.h"
#include "common/launch.h"
#include "common/variant.h"

namespace spark {
namespace {

Status check_combine(const CombineParams& p) {
  Status status = check_variant<SPARK_DTYPE, SPARK_HEAD_DIM>(p.dtype, p.head_dim);
  if (status.code == STATUS_OK) {
    status = check_range("qo_len", p.qo_len, SPARK_ACCEPTS_QO_LEN_MIN, SPARK_ACCEPTS_QO_LEN_MAX);
  }
  if (status.code == STATUS_OK) {
    status = check_range("num_splits", p.num_splits, SPARK_ACCEPTS_NUM_SPLITS_MIN, SPARK_ACCEPTS_NUM_SPLITS_MAX);
  }
  if (status.code == STATUS_OK) status = check_range("batch", p.batch, 1, GRID_YZ_MAX);
  return status;
}

Status launch_attn_combine(const void* params, void* stream) {
  const CombineParams& p = *static_cast<const CombineParams*>(params);
  const Status checked = check_combine(p);
  if (checked.code != STATUS_OK) return checked;
  LaunchConfig config;
  config.grid = dim3(p.qo_len * p.num_qo_heads, p.batch);
  config.block = dim3(SPARK_BLOCK);
  config.dynamic_smem = SPARK_DYNAMIC_SMEM;
  config.stream = stream;
  config.dependent = p.dependent != 0;
  return SPARK_LAUNCH((attn_combine_kernel<SPARK_DTYPE, SPARK_HEAD_DIM>), config, p);
}

SPARK_REGISTER_VARIANT("combine", launch_attn_combine);

}  // namespace
}  // namespace spark
