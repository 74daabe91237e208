// prefill as Python calls it: contiguous, packed (ragged) and paged.
#include <tvm/ffi/function.h>

#include "bindings/attention.h"

namespace spark::bindings {
namespace {

// int32 [batch + 1], from 0 up to the number of packed rows. Values that live on the device are not read; returns the
// longest sequence, -1 where it is not known.
int64_t check_indptr(const char* name, const TensorView& indptr, int64_t batch, int64_t total, DLDevice device) {
  check_device(name, indptr, device);
  check_dtype(name, indptr, INT32);
  check_shape(name, indptr, {batch + 1});
  check_contiguous(name, indptr);
  if (device.device_type != kDLCPU) return -1;
  const int32_t* values = static_cast<const int32_t*>(data_of(indptr));
  if (values[0] != 0 || values[batch] != total) {
    TVM_FFI_THROW(ValueError) << name << " goes from " << values[0] << " to " << values[batch]
                              << ", accepted is from 0 to " << total << ", the packed rows";
  }
  int64_t longest = 0;
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length = static_cast<int64_t>(values[b + 1]) - values[b];
    if (length < 0) {
      TVM_FFI_THROW(ValueError) << name << "[" << b + 1 << "] is " << values[b + 1] << ", accepted is " << values[b]
                                << " or more: it must not fall";
    }
    longest = std::max(longest, length);
  }
  return longest;
}

// q [batch, qo_len, num_qo_heads, head_dim], or packed [total_qo, num_qo_heads, head_dim] with qo_indptr.
PrefillParams packed_query_params(const TensorView& q, const Optional<TensorView>& qo_indptr, int64_t max_qo_len) {
  const bool packed = qo_indptr.has_value();
  check_rank(
      "q", q, packed ? 3 : 4,
      packed ? "[total_qo, num_qo_heads, head_dim], as qo_indptr is given" : "[batch, qo_len, num_qo_heads, head_dim]");
  check_on_backend(q);
  check_float16("q", q);
  PrefillParams p = {};
  p.dtype = dtype_code(q);
  p.q = data_of(q);
  p.q_stride = row_strides("q", q);
  p.num_qo_heads = int32_of("num_qo_heads", q.size(q.ndim() - 2));
  p.head_dim = int32_of("head_dim", q.size(q.ndim() - 1));
  if (!packed) {
    p.batch = int32_of("batch", q.size(0));
    p.qo_len = int32_of("qo_len", q.size(1));
    return p;
  }
  const TensorView& indptr = qo_indptr.value();
  check_rank("qo_indptr", indptr, 1, "[batch + 1]");
  if (indptr.size(0) < 1) TVM_FFI_THROW(ValueError) << "qo_indptr has shape [0], accepted is [batch + 1]";
  int32_of("total_qo", q.size(0));
  p.batch = int32_of("batch", indptr.size(0) - 1);
  const int64_t longest = check_indptr("qo_indptr", indptr, p.batch, q.size(0), q.device());
  if (max_qo_len < longest || max_qo_len < 0) {
    TVM_FFI_THROW(ValueError) << "max_qo_len is " << max_qo_len << ", accepted is " << std::max<int64_t>(longest, 0)
                              << " or more, the longest sequence";
  }
  p.qo_len = int32_of("max_qo_len", max_qo_len);
  p.qo_indptr = static_cast<const int32_t*>(data_of(indptr));
  return p;
}

// k, v [batch, kv_len, num_kv_heads, head_dim].
void set_contiguous(PrefillParams& p, const TensorView& k, const TensorView& v, const Optional<TensorView>& kv_lens,
                    const TensorView& q) {
  check_rank("k", k, 4, "[batch, kv_len, num_kv_heads, head_dim]");
  check_shape("k", k, {p.batch, k.size(1), k.size(2), p.head_dim});
  set_kv(p, "k", k, "v", v, q);
  p.kv_len = int32_of("kv_len", k.size(1));
  if (!kv_lens.has_value()) return;
  check_kv_lens(kv_lens.value(), p.batch, p.kv_len, "the length of k", q.device());
  p.kv_lens = static_cast<const int32_t*>(data_of(kv_lens.value()));
}

// k, v [total_kv, num_kv_heads, head_dim]. A mask's width bounds the lengths, so that it is never read past its end.
void set_packed(PrefillParams& p, const TensorView& k, const TensorView& v, const TensorView& kv_indptr,
                const Optional<TensorView>& mask, const TensorView& q) {
  check_rank("k", k, 3, "[total_kv, num_kv_heads, head_dim], as kv_indptr is given");
  check_shape("k", k, {k.size(0), k.size(1), p.head_dim});
  set_kv(p, "k", k, "v", v, q);
  const int64_t longest = check_indptr("kv_indptr", kv_indptr, p.batch, k.size(0), q.device());
  p.kv_indptr = static_cast<const int32_t*>(data_of(kv_indptr));
  p.kv_len = int32_of("total_kv", k.size(0));
  if (!mask.has_value()) return;
  check_rank("mask", mask.value(), 4, "[batch, num_qo_heads, qo_len, kv_len]");
  const int64_t width = mask.value().size(3);
  if (width < longest) {
    TVM_FFI_THROW(ValueError) << "mask has shape " << shape_text(mask.value()) << ", accepted is a last size of "
                              << longest << " or more, the longest sequence of k";
  }
  p.kv_len = int32_of("the mask's kv_len", width);
}

void set_outputs(PrefillParams& p, const TensorView& out, const Optional<TensorView>& lse, const TensorView& q) {
  check_same_shape("out", out, q);
  check_dtype("out", out, q.dtype());
  check_device("out", out, q.device());
  p.out = data_of(out);
  p.out_stride = row_strides("out", out);
  check_no_overlap("out", out);
  if (!lse.has_value()) return;
  check_device("lse", lse.value(), q.device());
  check_dtype("lse", lse.value(), FLOAT32);
  if (q.ndim() == 3) {
    check_shape("lse", lse.value(), {q.size(0), q.size(1)});
  } else {
    check_shape("lse", lse.value(), {q.size(0), q.size(1), q.size(2)});
  }
  check_contiguous("lse", lse.value());
  p.lse = static_cast<float*>(data_of(lse.value()));
}

}  // namespace

// With page_table, k and v are [num_pages, page_size, num_kv_heads, head_dim] and kv_lens is needed; with kv_indptr
// they are packed; else they are [batch, kv_len, num_kv_heads, head_dim] and kv_lens may shorten them.
void prefill(int64_t variant, TensorView q, TensorView k, TensorView v, Optional<TensorView> page_table,
             Optional<TensorView> kv_lens, Optional<TensorView> qo_indptr, Optional<TensorView> kv_indptr,
             int64_t max_qo_len, TensorView out, Optional<TensorView> lse, double scale, bool causal, int64_t window,
             double softcap, Optional<TensorView> mask, Optional<TensorView> sinks) {
  PrefillParams p = packed_query_params(q, qo_indptr, max_qo_len);
  if (kv_indptr.has_value() && (page_table.has_value() || kv_lens.has_value())) {
    TVM_FFI_THROW(ValueError) << "kv_indptr and " << (page_table.has_value() ? "page_table" : "kv_lens")
                              << " are given, accepted is one of them";
  }
  if (page_table.has_value()) {
    if (!kv_lens.has_value()) TVM_FFI_THROW(ValueError) << "kv_lens is None, page_table needs it";
    set_pages(p, "k", k, "v", v, page_table.value(), kv_lens.value(), q);
  } else if (kv_indptr.has_value()) {
    set_packed(p, k, v, kv_indptr.value(), mask, q);
  } else {
    set_contiguous(p, k, v, kv_lens, q);
  }
  set_options(p, {scale, causal, window, softcap, mask}, q, p.qo_len, p.kv_len);
  if (page_table.has_value()) check_page_ids(p, p.qo_indptr, "k", q.device());
  p.sinks = check_sinks(sinks, q, p.num_qo_heads);
  set_outputs(p, out, lse, q);
  if (p.batch == 0 || p.qo_len == 0 || q.numel() == 0) return;

  const Variant& entry = variant_for("prefill", variant);
  const LaunchContext context(q.device());
  raise_if_failed(entry.launcher(&p, context.stream()));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(prefill, prefill);

}  // namespace spark::bindings
