// decode and paged_decode: the splits, then the combine behind them.
#include "attention/params.h"
#include "runner/attention_call.h"
#include "runner/families.h"

namespace spark::runner {
namespace {

constexpr int64_t kGridLimit = 65535;

void run_splits(Call& call, DecodeParams& p) {
  p.num_splits = static_cast<int32_t>(call.integer("num_splits", 1, kGridLimit));
  const Shape rows = {p.batch, p.qo_len, p.num_qo_heads, p.num_splits};
  Shape wide = rows;
  wide.push_back(p.head_dim);
  p.partials.acc = static_cast<float*>(call.workspace("part_acc", ElementType::f32, wide).address());
  p.partials.max = static_cast<float*>(call.workspace("part_max", ElementType::f32, rows).address());
  p.partials.sum = static_cast<float*>(call.workspace("part_sum", ElementType::f32, rows).address());
  CombineParams combine = {};
  combine.partials = p.partials;
  combine.dtype = p.dtype;
  combine.head_dim = p.head_dim;
  combine.batch = p.batch;
  combine.qo_len = p.qo_len;
  combine.num_qo_heads = p.num_qo_heads;
  combine.num_splits = p.num_splits;
  combine.dependent = 1;
  combine.sinks = sinks_of(call, p.num_qo_heads);
  set_results(call, combine, element_type(call.file().inputs, "q"), {p.batch, p.qo_len, p.num_qo_heads, p.head_dim});
  const Variant& combine_variant = call.variant_named("combine", "combine");
  call.launch(call.variant(), &p);
  call.launch(combine_variant, &combine);
}

}  // namespace

void run_decode(Call& call) {
  DecodeParams p = {};
  set_query(call, p);
  p.kv_len = narrow("kv_len", set_kv(call, p, "k", "v", {p.batch, -1, -1}).shape[1]);
  set_options(call, p);
  set_kv_lens(call, p);
  run_splits(call, p);
}

void run_paged_decode(Call& call) {
  DecodeParams p = {};
  set_query(call, p);
  const Pages pages = set_pages(call, p, "k_pages", "v_pages");
  set_options(call, p);
  check_pages(call, p, pages, nullptr);
  run_splits(call, p);
}

}  // namespace spark::runner
