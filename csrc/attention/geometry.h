// Which keys a split covers and which query rows a CTA packs: index arithmetic shared by host and device.
#pragma once

#include "attention/params.h"
#include "common/math.h"
#include "common/platform.h"

namespace spark {

// Keys [begin, end) of one split. Empty splits have begin == end.
struct KvRange {
  int begin;
  int end;
};

// Equal tiles per split; every CTA derives its range from the real length, so a captured graph replays at any length.
SPARK_HOST_DEVICE KvRange split_range(int kv_len, int split, int num_splits, int block_kv) {
  const int tiles = ceil_div(kv_len, block_kv);
  const int tiles_per_split = ceil_div(tiles, num_splits);
  const int64_t begin = static_cast<int64_t>(split) * tiles_per_split * block_kv;
  if (begin >= kv_len) return {kv_len, kv_len};
  const int64_t end = begin + static_cast<int64_t>(tiles_per_split) * block_kv;
  return {static_cast<int>(begin), end < kv_len ? static_cast<int>(end) : kv_len};
}

// One packed query row: the group's heads vary fastest, then the query position.
struct QueryRow {
  bool valid;
  int position;  // in [0, qo_len)
  int head;      // in [0, num_qo_heads)
  int kv_limit;  // keys below this index are visible; 0 for a row that is padding
};

SPARK_HOST_DEVICE QueryRow query_row(const DecodeParams& p, int kv_head, int packed, int kv_len) {
  const int group = p.num_qo_heads / p.num_kv_heads;
  QueryRow row;
  row.valid = packed < group * p.qo_len;
  row.position = row.valid ? packed / group : 0;
  row.head = kv_head * group + (row.valid ? packed % group : 0);
  const int limit = p.causal ? kv_len - p.qo_len + row.position + 1 : kv_len;
  row.kv_limit = row.valid ? (limit > 0 ? limit : 0) : 0;
  return row;
}

// The number of keys of one sequence, never more than K and V hold.
SPARK_HOST_DEVICE int sequence_kv_len(const DecodeParams& p, int batch) {
  if (p.kv_lens == nullptr) return p.kv_len;
  const int len = p.kv_lens[batch];
#if SPARK_CHECKS
  if (len < 0 || len > p.kv_len) __trap();
#endif
  return len < 0 ? 0 : (len < p.kv_len ? len : p.kv_len);
}

// Index of a row in partials.max and partials.sum; times head_dim it is the row's start in partials.acc.
SPARK_HOST_DEVICE int64_t partial_index(int batch, int qo_len, int position, int num_qo_heads, int head, int num_splits,
                                        int split) {
  return ((static_cast<int64_t>(batch) * qo_len + position) * num_qo_heads + head) * num_splits + split;
}

SPARK_HOST_DEVICE int64_t element_offset(const TensorStrides& stride, int batch, int len, int head) {
  return batch * stride.batch + len * stride.len + head * stride.head;
}

}  // namespace spark
