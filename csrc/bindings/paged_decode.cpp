// paged_decode as Python calls it.
#include <tvm/ffi/function.h>

#include "bindings/attention.h"

namespace spark::bindings {

// k_pages, v_pages [num_pages, page_size, num_kv_heads, head_dim]; page_table int32 [batch, max_pages], kv_lens int32
// [batch].
void paged_decode(int64_t variant, int64_t combine_variant, TensorView q, TensorView k_pages, TensorView v_pages,
                  TensorView page_table, TensorView kv_lens, TensorView out, Optional<TensorView> lse,
                  TensorView part_acc, TensorView part_max, TensorView part_sum, double scale, bool causal,
                  int64_t window, double softcap, Optional<TensorView> mask, Optional<TensorView> sinks) {
  DecodeParams p = query_params(q);
  set_pages(p, "k_pages", k_pages, "v_pages", v_pages, page_table, kv_lens, q);
  set_options(p, {scale, causal, window, softcap, mask}, q, q.size(1), p.kv_len);
  check_page_ids(p, nullptr, "k_pages", q.device());
  run_decode("paged_decode", variant, combine_variant, p, q, {out, lse, part_acc, part_max, part_sum}, sinks);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(paged_decode, paged_decode);

}  // namespace spark::bindings
