// What the launchers of the prefill kernels share: the shapes that they accept, and the grid that they launch.
#pragma once

#include "attention/launch_checks.cuh"
#include "attention/params.h"
#include "common/launch.h"
#include "common/math.h"

namespace spark {

// Internal linkage: every kernel has its own ranges and block.
static inline Status check_prefill(const PrefillParams& p) {
  Status status = check_attention(p);
  if (status.code == STATUS_OK) status = check_range("num_kv_heads", p.num_kv_heads, 1, GRID_YZ_MAX);
  if (status.code != STATUS_OK) return status;
  if (SPARK_PAGED) return check_pages(p);
  if (p.page_table != nullptr) return invalid_argument("page_table is given, this variant takes contiguous k and v");
  return ok();
}

// grid: [query tiles of the longest sequence, num_kv_heads, batch]; the tiles of one kv head are neighbours, so that
// its keys stay in L2.
static inline LaunchConfig prefill_launch_config(const PrefillParams& p, int block_q, void* stream) {
  LaunchConfig config;
  config.grid = dim3(ceil_div(p.group * p.qo_len, block_q), p.num_kv_heads, p.batch);
  config.block = dim3(SPARK_BLOCK);
  config.dynamic_smem = SPARK_DYNAMIC_SMEM;
  config.stream = stream;
  return config;
}

}  // namespace spark
