// prefill: K and V contiguous, packed (ragged) or in pages, q padded or packed.
#include <algorithm>

#include "attention/params.h"
#include "runner/attention_call.h"
#include "runner/families.h"

namespace spark::runner {
namespace {

// int32 [batch + 1], from 0 up to `total` packed rows without a fall; returns the longest sequence.
int64_t check_indptr(const Call& call, const TensorEntry& indptr, int64_t total) {
  check_contiguous(indptr);
  const char* name = indptr.name.c_str();
  const int64_t batch = indptr.shape[0] - 1;
  const int32_t first = call.int_at(indptr, {0}), last = call.int_at(indptr, {batch});
  if (first != 0 || last != total) {
    reject("%s goes from %d to %d, accepted is from 0 to %lld, the packed rows", name, first, last,
           static_cast<long long>(total));
  }
  int64_t longest = 0;
  for (int64_t b = 0; b < batch; ++b) {
    const int32_t begin = call.int_at(indptr, {b}), end = call.int_at(indptr, {b + 1});
    if (end < begin) {
      reject("%s[%lld] is %d, accepted is %d or more: it must not fall", name, static_cast<long long>(b + 1), end,
             begin);
    }
    longest = std::max<int64_t>(longest, static_cast<int64_t>(end) - begin);
  }
  return longest;
}

// q [total_qo, num_qo_heads, head_dim] whose sequences begin at qo_indptr.
void set_packed_query(Call& call, PrefillParams& p, const TensorEntry& qo_indptr) {
  const TensorEntry& q = call.input("q", element_type(call.file().inputs, "q"), {-1, -1, -1});
  narrow("total_qo", q.shape[0]);
  p.dtype = dtype_code(q.type);
  p.batch = narrow("batch", qo_indptr.shape[0] - 1);
  p.num_qo_heads = narrow("num_qo_heads", q.shape[1]);
  p.head_dim = narrow("head_dim", q.shape[2]);
  p.q_stride = strides_of(q);
  p.q = call.address(q);
  const int64_t longest = check_indptr(call, qo_indptr, q.shape[0]);
  p.qo_len = static_cast<int32_t>(call.integer("max_qo_len", longest, INT32_MAX));
  p.qo_indptr = ints(call, qo_indptr);
}

// k, v [total_kv, num_kv_heads, head_dim]. A mask's width is the longest that its rows have room for.
void set_packed_kv(Call& call, PrefillParams& p, const TensorEntry& kv_indptr) {
  const TensorEntry& k = set_kv(call, p, "k", "v", {-1, -1});
  const int64_t longest = check_indptr(call, kv_indptr, k.shape[0]);
  p.kv_indptr = ints(call, kv_indptr);
  p.kv_len = narrow("total_kv", k.shape[0]);
  const TensorEntry* mask = find_tensor(call.file().inputs, "mask");
  if (mask == nullptr) return;
  const int64_t width = mask->shape.back();
  if (width < longest) {
    reject("mask has a last size of %lld, accepted is %lld or more, the longest sequence of k",
           static_cast<long long>(width), static_cast<long long>(longest));
  }
  p.kv_len = narrow("the mask's kv_len", width);
}

const TensorEntry* indptr_of(Call& call, const char* name, int64_t batch) {
  const TensorEntry* indptr = call.optional_input(name, ElementType::i32, {batch < 0 ? -1 : batch + 1});
  if (indptr != nullptr && indptr->shape[0] < 1) reject("'%s' has shape [0], accepted is [batch + 1]", name);
  return indptr;
}

}  // namespace

void run_prefill(Call& call) {
  PrefillParams p = {};
  const TensorEntry* qo_indptr = indptr_of(call, "qo_indptr", -1);
  if (qo_indptr == nullptr) {
    set_query(call, p);
  } else {
    set_packed_query(call, p, *qo_indptr);
  }
  if (find_tensor(call.file().inputs, "page_table") != nullptr) {
    const Pages pages = set_pages(call, p, "k", "v");
    set_options(call, p);
    check_pages(call, p, pages, qo_indptr);
  } else if (const TensorEntry* kv_indptr = indptr_of(call, "kv_indptr", p.batch)) {
    set_packed_kv(call, p, *kv_indptr);
    set_options(call, p);
  } else {
    p.kv_len = narrow("kv_len", set_kv(call, p, "k", "v", {p.batch, -1, -1}).shape[1]);
    set_options(call, p);
    set_kv_lens(call, p);
  }
  p.sinks = sinks_of(call, p.num_qo_heads);
  const TensorEntry* q = find_tensor(call.file().inputs, "q");
  set_results(call, p, q->type, q->shape);
  call.check_all_known();
  if (q->count() > 0) call.launch(call.variant(), &p);
}

}  // namespace spark::runner
