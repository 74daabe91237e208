// What the launchers of the decode kernels share: the shapes that they accept, and the grid that they launch. The
// tensors themselves are checked where they enter, in bindings/.
#pragma once

#include "attention/launch_checks.cuh"
#include "attention/params.h"
#include "common/launch.h"
#include "common/math.h"

namespace spark {

// Internal linkage here and below: every kernel has its own ranges and block.
static inline Status check_decode(const DecodeParams& p) {
  const Status checked = check_attention(p);
  return checked.code != STATUS_OK ? checked : check_range("num_splits", p.num_splits, 1, GRID_YZ_MAX);
}

#ifdef SPARK_ACCEPTS_PAGE_SIZE_MIN
static inline Status check_paged_decode(const DecodeParams& p) {
  const Status pages = check_pages(p);
  return pages.code != STATUS_OK ? pages : check_decode(p);
}
#endif

// grid: [num_kv_heads * passes, num_splits, batch]; a CTA takes `rows_per_cta` of a kv head's group * qo_len query
// rows. The kernels may start while the one ahead ends: they wait for it themselves.
static inline LaunchConfig decode_launch_config(const DecodeParams& p, int rows_per_cta, void* stream) {
  const int passes = ceil_div(p.group * p.qo_len, rows_per_cta);
  LaunchConfig config;
  config.grid = dim3(p.num_kv_heads * passes, p.num_splits, p.batch);
  config.block = dim3(SPARK_BLOCK);
  config.dynamic_smem = SPARK_DYNAMIC_SMEM;
  config.stream = stream;
  config.dependent = true;
  return config;
}

}  // namespace spark
