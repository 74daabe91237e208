// What the host hands to the attention kernels: plain structs, shapes beside pointers, no CUDA header.
// Strides count elements and are 64-bit, so that no offset is formed in 32 bits.
#pragma once

#include "common/integers.h"

namespace spark {

// Strides of a [batch, len, heads, head_dim] tensor whose last stride is 1; of [num_pages, page_size, heads, head_dim]
// too, where `batch` steps from page to page and `len` inside one.
struct TensorStrides {
  int64_t batch;
  int64_t len;
  int64_t head;
};

// The un-normalised results of every split, contiguous fp32.
struct Partials {
  float* acc;  // [batch, qo_len, num_qo_heads, num_splits, head_dim]; sum of exp2(score - max) * v
  float* max;  // [batch, qo_len, num_qo_heads, num_splits]; maximum of score * scale * log2(e), -inf: nothing seen
  float* sum;  // [batch, qo_len, num_qo_heads, num_splits]; sum of exp2(score - max)
};

// Strides of a boolean [batch, num_qo_heads, qo_len, kv_len] mask whose last stride is 1; 0 along a broadcast axis.
struct MaskStrides {
  int64_t batch;
  int64_t head;
  int64_t row;
};

// What decode and prefill share: q, contiguous or paged K and V, and which scores count how.
// group = num_qo_heads / num_kv_heads.
struct AttentionParams {
  const void* q;           // [batch, qo_len, num_qo_heads, head_dim]
  const void* k;           // [batch, kv_len, num_kv_heads, head_dim], or [num_pages, page_size, num_kv_heads, head_dim]
  const void* v;           // as k
  const int32_t* kv_lens;  // [batch], nullable where contiguous: every sequence then has kv_len keys
  const int32_t* page_table;  // [batch, max_pages], page ids; null where contiguous
  const uint8_t* mask;        // [batch, num_qo_heads, qo_len, kv_len], not 0: visible; nullable
  TensorStrides q_stride;
  TensorStrides k_stride;
  TensorStrides v_stride;
  int64_t page_table_stride;  // from one sequence's pages to the next one's
  MaskStrides mask_stride;
  int32_t dtype;  // a DType, of q, k and v
  int32_t head_dim;
  int32_t batch;
  int32_t qo_len;
  int32_t num_qo_heads;
  int32_t num_kv_heads;
  int32_t group;        // num_qo_heads / num_kv_heads
  int32_t kv_len;       // of K and V; where paged the longest that the table has room for
  int32_t page_size;    // keys of a page; 0 where contiguous
  int32_t num_pages;    // of k and v; 0 where contiguous
  float scale_log2;     // softmax scale * log2(e)
  float softcap;        // soft-cap / softmax scale; 0: scores are not capped
  float softcap_scale;  // 2 * log2(e) * softmax scale / soft-cap
  int32_t causal;       // query i, at position kv_len - qo_len + i, sees no key behind its position
  int32_t window;       // query i sees at most this many keys ahead of its position; -1: all
};

struct DecodeParams : AttentionParams {
  Partials partials;
  int32_t num_splits;
};

// Ragged batches are packed: with qo_indptr q and out are [total_qo, num_qo_heads, head_dim] and sequence b has the
// rows [qo_indptr[b], qo_indptr[b + 1]); with kv_indptr the same holds for k and v. qo_len and kv_len are then the
// longest.
struct PrefillParams : AttentionParams {
  const int32_t* qo_indptr;  // [batch + 1], nullable
  const int32_t* kv_indptr;  // [batch + 1], nullable
  const float* sinks;        // [num_qo_heads], natural-log logits, nullable
  void* out;                 // as q
  float* lse;                // [batch, qo_len, num_qo_heads] or [total_qo, num_qo_heads], natural log, nullable
  TensorStrides out_stride;
};

// The merge of the splits.
struct CombineParams {
  Partials partials;
  void* out;           // [batch, qo_len, num_qo_heads, head_dim]
  float* lse;          // [batch, qo_len, num_qo_heads], natural log, nullable
  const float* sinks;  // [num_qo_heads], one more logit of every row of a head, without a value; nullable
  TensorStrides out_stride;
  int32_t dtype;  // a DType, of out
  int32_t head_dim;
  int32_t batch;
  int32_t qo_len;
  int32_t num_qo_heads;
  int32_t num_splits;
  int32_t dependent;  // 1: launched behind the kernel that writes the partials, before it has ended
};

// The merge of normalised results of the same queries over disjoint keys.
struct StatesParams {
  const void* states;               // [num_states, batch, qo_len, num_qo_heads, head_dim]
  const float* states_lse;          // [num_states, batch, qo_len, num_qo_heads], natural log, -inf: saw no key
  void* out;                        // [batch, qo_len, num_qo_heads, head_dim]; may be one of the states
  float* lse;                       // [batch, qo_len, num_qo_heads], contiguous, nullable; may be one of states_lse
  int64_t states_stride;            // from one state to the next
  int64_t states_lse_stride;        // from one state to the next; inside one contiguous
  TensorStrides states_row_stride;  // inside one state
  TensorStrides out_stride;
  int32_t dtype;  // a DType, of states and out
  int32_t head_dim;
  int32_t batch;
  int32_t qo_len;
  int32_t num_qo_heads;
  int32_t num_states;
};

// Host and device must read the same bytes.
static_assert(sizeof(TensorStrides) == 24 && sizeof(Partials) == 24, "params.h: a field was padded");
static_assert(sizeof(MaskStrides) == 24, "params.h: a field was padded");
static_assert(sizeof(AttentionParams) == 216, "params.h: AttentionParams changed size");
static_assert(sizeof(DecodeParams) == 248, "params.h: DecodeParams changed size");
static_assert(sizeof(PrefillParams) == 280, "params.h: PrefillParams changed size");
static_assert(sizeof(CombineParams) == 104, "params.h: CombineParams changed size");
static_assert(sizeof(StatesParams) == 120, "params.h: StatesParams changed size");

}  // namespace spark
