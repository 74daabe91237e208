// The shapes that the launchers of the attention kernels accept. The tensors themselves are checked where they enter,
// in bindings/.
#pragma once

#include "attention/checks.h"
#include "attention/geometry.h"
#include "attention/params.h"

namespace spark {

// Internal linkage here and below: every kernel has its own ranges.
static inline Status check_attention(const AttentionParams& p) {
  const Status variant = check_variant<SPARK_DTYPE, SPARK_HEAD_DIM>(p.dtype, p.head_dim);
  if (variant.code != STATUS_OK) return variant;
  if (p.num_kv_heads < 1 || p.num_qo_heads % p.num_kv_heads != 0) {
    return invalid_argument("num_qo_heads is %d, accepted is a multiple of num_kv_heads (%d)", p.num_qo_heads,
                            p.num_kv_heads);
  }
  if (p.group != group_of(p)) {
    return invalid_argument("group is %d, accepted is num_qo_heads / num_kv_heads (%d)", p.group, group_of(p));
  }
  const struct {
    const char* name;
    int64_t value, min, max;
  } ranges[] = {
      {"group (num_qo_heads / num_kv_heads)", p.group, SPARK_ACCEPTS_GROUP_MIN, SPARK_ACCEPTS_GROUP_MAX},
      {"qo_len", p.qo_len, SPARK_ACCEPTS_QO_LEN_MIN, SPARK_ACCEPTS_QO_LEN_MAX},
      {"kv_len", p.kv_len, SPARK_ACCEPTS_KV_LEN_MIN, SPARK_ACCEPTS_KV_LEN_MAX},
      {"batch", p.batch, 1, GRID_YZ_MAX},
  };
  for (const auto& range : ranges) {
    const Status status = check_range(range.name, range.value, range.min, range.max);
    if (status.code != STATUS_OK) return status;
  }
  return ok();
}

#ifdef SPARK_ACCEPTS_PAGE_SIZE_MIN
static inline Status check_pages(const AttentionParams& p) {
  const bool has_table = p.page_table != nullptr || p.kv_len == 0;  // an empty table has no memory
  if (!has_table || p.kv_lens == nullptr) return invalid_argument("page_table and kv_lens are needed");
  return check_range("page_size", p.page_size, SPARK_ACCEPTS_PAGE_SIZE_MIN, SPARK_ACCEPTS_PAGE_SIZE_MAX);
}
#endif

}  // namespace spark
