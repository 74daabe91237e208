// decode and combine as Python calls them: tensors in, params out to the plain C++ launchers of the variants.
#include <tvm/ffi/function.h>

#include "bindings/attention.h"

namespace spark::bindings {

// K and V contiguous: k, v [batch, kv_len, num_kv_heads, head_dim]; kv_lens int32 [batch] or None.
void decode(int64_t variant, int64_t combine_variant, TensorView q, TensorView k, TensorView v,
            Optional<TensorView> kv_lens, TensorView out, Optional<TensorView> lse, TensorView part_acc,
            TensorView part_max, TensorView part_sum, double scale, bool causal, int64_t window, double softcap,
            Optional<TensorView> mask, Optional<TensorView> sinks) {
  DecodeParams p = query_params(q);
  check_rank("k", k, 4, "[batch, kv_len, num_kv_heads, head_dim]");
  check_shape("k", k, {q.size(0), k.size(1), k.size(2), q.size(3)});
  set_kv(p, "k", k, "v", v, q);
  p.kv_len = int32_of("kv_len", k.size(1));
  if (kv_lens.has_value()) {
    check_kv_lens(kv_lens.value(), q.size(0), k.size(1), "the length of k", q.device());
    p.kv_lens = static_cast<const int32_t*>(data_of(kv_lens.value()));
  }
  set_options(p, {scale, causal, window, softcap, mask}, q, q.size(1), k.size(1));
  run_decode("decode", variant, combine_variant, p, q, {out, lse, part_acc, part_max, part_sum}, sinks);
}

// Merges given partials alone.
void combine(int64_t variant, TensorView part_acc, TensorView part_max, TensorView part_sum, TensorView out,
             Optional<TensorView> lse, Optional<TensorView> sinks) {
  check_rank("out", out, 4, "[batch, qo_len, num_qo_heads, head_dim]");
  check_on_backend(out);
  check_float16("out", out);
  const Partials partials = check_partials(part_acc, part_max, part_sum, out);
  CombineParams p = combine_params(partials, part_max.size(3), out, lse);
  p.sinks = check_sinks(sinks, out, out.size(2));
  if (out.numel() == 0) return;
  const Variant& entry = variant_for("combine", variant);
  const LaunchContext context(out.device());
  raise_if_failed(entry.launcher(&p, context.stream()));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(decode, decode);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(combine, combine);

}  // namespace spark::bindings
