// What the prefill kernels share: which sequence and which packed query rows a CTA works on, which keys those rows see,
// and what a row's softmax comes to.
//
// The group's heads of one position are neighbouring rows (QueryRow), so a tile reads each key once for all of them and
// a causal tile reaches over fewer positions.
#pragma once

#include "attention/geometry.h"
#include "attention/softmax.cuh"
#include "common/math.h"
#include "common/platform.h"

namespace spark {

// One sequence of the batch.
struct Sequence {
  int batch;
  int first;  // its first query in a packed q; 0 where q is not packed
  int qo_len;
  int kv_len;
};

SPARK_DEVICE Sequence sequence_of(const PrefillParams& p, int batch) {
  Sequence seq = {batch, 0, p.qo_len, 0};
  if (p.qo_indptr != nullptr) {
    seq.first = p.qo_indptr[batch];
    seq.qo_len = p.qo_indptr[batch + 1] - seq.first;
  }
  if (p.kv_indptr == nullptr) {
    seq.kv_len = sequence_kv_len(p, batch);
  } else {
    const int len = p.kv_indptr[batch + 1] - p.kv_indptr[batch];
    seq.kv_len = len < 0 ? 0 : (len < p.kv_len ? len : p.kv_len);
#if SPARK_CHECKS
    if (len != seq.kv_len) __trap();
#endif
  }
#if SPARK_CHECKS
  if (seq.qo_len < 0 || seq.qo_len > p.qo_len) __trap();
#endif
  return seq;
}

// The first packed row of this CTA's tile; negative past the sequence's last tile. Late queries see most keys of a
// causal sequence, so the last tile comes first.
SPARK_DEVICE int first_row_of_block(const PrefillParams& p, const Sequence& seq, int block_q) {
  const int rows = p.group * seq.qo_len;
  return (ceil_div(rows, block_q) - 1 - static_cast<int>(blockIdx.x)) * block_q;
}

// Keys that rows see, before a mask.
struct RowsView {
  KvRange some;  // at least one of the rows
  KvRange all;   // every one of the rows; may have its end ahead of its begin
};

// Of the packed rows [first_row, first_row + count), padding left out: both ends of a row's range grow with its
// position.
SPARK_DEVICE RowsView rows_view(const PrefillParams& p, const Sequence& seq, int first_row, int count) {
  const int rows = p.group * seq.qo_len;
  if (first_row >= rows) return {{0, 0}, {0, 0}};
  const int last_row = first_row + count < rows ? first_row + count - 1 : rows - 1;
  const KvRange first = visible_to(p, first_row / p.group, seq.qo_len, seq.kv_len);
  const KvRange last = visible_to(p, last_row / p.group, seq.qo_len, seq.kv_len);
  return {{first.begin, last.end}, {last.begin, first.end}};
}

// What a row's accumulator is multiplied with, and its lse.
struct FinishedRow {
  float scale;
  float lse;
};

SPARK_DEVICE FinishedRow finish_row(const PrefillParams& p, MergedRow row, int head) {
  float factor = 1.0f;
  float sink = kNegInf;
  if (p.sinks != nullptr) {
    const float max = row.max;
    sink = p.sinks[head];
    add_sink(row, sink_to_log2(sink));
    factor = rescale_factor(max, row.max);
  }
  return {row.sum == 0.0f ? 0.0f : factor / row.sum, row_lse(row, sink)};
}

SPARK_DEVICE void store_lse(const PrefillParams& p, const Sequence& seq, const QueryRow& row, float lse) {
  if (p.lse == nullptr) return;
  const int64_t first = p.qo_indptr == nullptr ? static_cast<int64_t>(seq.batch) * p.qo_len : seq.first;
  p.lse[(first + row.position) * p.num_qo_heads + row.head] = lse;
}

// Element offset of a row of q or out. A packed tensor's batch stride is 0.
SPARK_DEVICE int64_t row_offset(const TensorStrides& stride, const Sequence& seq, const QueryRow& row) {
  return element_offset(stride, seq.batch, seq.first + row.position, row.head);
}

}  // namespace spark
