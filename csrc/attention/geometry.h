// Which keys a split covers and which query rows a CTA packs: index arithmetic shared by host and device.
#pragma once

#include "attention/params.h"
#include "common/math.h"
#include "common/platform.h"

namespace spark {

// The group that heads come to; 0 where there is none: launchers refuse it.
SPARK_HOST_DEVICE int group_of(const AttentionParams& p) {
  const bool whole = p.num_kv_heads > 0 && p.num_qo_heads % p.num_kv_heads == 0;
  return whole ? p.num_qo_heads / p.num_kv_heads : 0;
}

// Keys [begin, end) of one split. Empty splits have begin == end.
struct KvRange {
  int begin;
  int end;
};

// Keys that some query of the sequence may see: a window hides those ahead of the first query's.
SPARK_HOST_DEVICE KvRange visible_range(const AttentionParams& p, int qo_len, int kv_len) {
  const int first = p.window < 0 ? 0 : kv_len - qo_len - p.window;
  return {first > 0 ? first : 0, kv_len};
}

// Equal tiles per split; every CTA derives its range from the real length, so a captured graph replays at any length.
SPARK_HOST_DEVICE KvRange split_range(const KvRange& visible, int split, int num_splits, int block_kv) {
  const int tiles = ceil_div(visible.end - visible.begin, block_kv);
  const int tiles_per_split = ceil_div(tiles, num_splits);
  const int64_t begin = visible.begin + static_cast<int64_t>(split) * tiles_per_split * block_kv;
  if (begin >= visible.end) return {visible.end, visible.end};
  const int64_t end = begin + static_cast<int64_t>(tiles_per_split) * block_kv;
  return {static_cast<int>(begin), end < visible.end ? static_cast<int>(end) : visible.end};
}

// Keys that the query at `position` of qo_len sees, before a mask.
SPARK_HOST_DEVICE KvRange visible_to(const AttentionParams& p, int position, int qo_len, int kv_len) {
  const int own = kv_len - qo_len + position;
  const int first = p.window < 0 ? 0 : own - p.window;
  const int begin = first > 0 ? first : 0;
  const int end = p.causal ? own + 1 : kv_len;
  return {begin, end > begin ? end : begin};
}

// One packed query row: the group's heads vary fastest, then the query position.
struct QueryRow {
  bool valid;
  int position;  // in [0, qo_len)
  int head;      // in [0, num_qo_heads)
  KvRange keys;  // visible ones, before a mask; empty for a row that is padding
};

SPARK_HOST_DEVICE QueryRow query_row(const AttentionParams& p, int kv_head, int packed, int qo_len, int kv_len) {
  QueryRow row;
  row.valid = packed < p.group * qo_len;
  row.position = qo_len > 1 && row.valid ? packed / p.group : 0;  // uniform: a division is some 30 instructions
  row.head = kv_head * p.group + (row.valid ? packed - row.position * p.group : 0);
  row.keys = row.valid ? visible_to(p, row.position, qo_len, kv_len) : KvRange{0, 0};
  return row;
}

// The kv head of a CTA of a decode grid, and the first of the packed query rows that it takes.
struct QueryBlock {
  int kv_head;
  int first_row;
};

// x counts passes fastest, then kv heads.
SPARK_HOST_DEVICE QueryBlock query_block(int x, int passes, int rows_per_cta) {
  const int kv_head = passes == 1 ? x : x / passes;  // uniform: no copy waits for a division where one pass will do
  return {kv_head, (x - kv_head * passes) * rows_per_cta};
}

// Where every sequence has p.qo_len queries.
SPARK_HOST_DEVICE QueryRow query_row(const AttentionParams& p, int kv_head, int packed, int kv_len) {
  return query_row(p, kv_head, packed, p.qo_len, kv_len);
}

// The number of keys of one sequence, never more than K and V hold.
SPARK_HOST_DEVICE int sequence_kv_len(const AttentionParams& p, int batch) {
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
