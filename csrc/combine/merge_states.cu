// attn_merge_states: launcher and entry. Axes: SPARK_DTYPE, SPARK_HEAD_DIM.
#include "combine/merge_states.cuh"

#include "attention/checks.h"
#include "common/launch.h"
#include "common/variant.h"

namespace spark {
namespace {

Status check_states(const StatesParams& p) {
  Status status = check_variant<SPARK_DTYPE, SPARK_HEAD_DIM>(p.dtype, p.head_dim);
  if (status.code == STATUS_OK) {
    status = check_range("num_states", p.num_states, SPARK_ACCEPTS_NUM_STATES_MIN, SPARK_ACCEPTS_NUM_STATES_MAX);
  }
  if (status.code == STATUS_OK) {
    status = check_range("qo_len", p.qo_len, SPARK_ACCEPTS_QO_LEN_MIN, SPARK_ACCEPTS_QO_LEN_MAX);
  }
  if (status.code == STATUS_OK) {
    status = check_range("qo_len * num_qo_heads", static_cast<int64_t>(p.qo_len) * p.num_qo_heads, 1, INT32_MAX);
  }
  if (status.code == STATUS_OK) status = check_range("batch", p.batch, 1, GRID_YZ_MAX);
  return status;
}

Status launch_attn_merge_states(const void* params, void* stream) {
  const StatesParams& p = *static_cast<const StatesParams*>(params);
  const Status checked = check_states(p);
  if (checked.code != STATUS_OK) return checked;
  LaunchConfig config;
  config.grid = dim3(p.qo_len * p.num_qo_heads, p.batch);
  config.block = dim3(SPARK_BLOCK);
  config.dynamic_smem = SPARK_DYNAMIC_SMEM;
  config.stream = stream;
  return SPARK_LAUNCH((attn_merge_states_kernel<SPARK_DTYPE, SPARK_HEAD_DIM>), config, p);
}

SPARK_REGISTER_VARIANT("merge_states", launch_attn_merge_states);

}  // namespace
}  // namespace spark
