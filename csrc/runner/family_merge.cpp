// combine and merge_states: what merges partial results.
#include "attention/params.h"
#include "runner/attention_call.h"
#include "runner/families.h"

namespace spark::runner {

void run_combine(Call& call) {
  const TensorEntry& acc = call.input("part_acc", ElementType::f32, {-1, -1, -1, -1, -1});
  const Shape rows(acc.shape.begin(), acc.shape.end() - 1);
  const TensorEntry& max = call.input("part_max", ElementType::f32, rows);
  const TensorEntry& sum = call.input("part_sum", ElementType::f32, rows);
  for (const TensorEntry* part : {&acc, &max, &sum}) check_contiguous(*part);
  if (acc.offset % 16 != 0) reject("part_acc starts at offset %zu, accepted is a multiple of 16", acc.offset);
  const auto parts = [&call](const TensorEntry& part) {  // the struct that decode writes has no const
    return static_cast<float*>(const_cast<void*>(call.address(part)));
  };
  const ElementType type = element_type(call.file().outputs, "out");
  CombineParams p = {};
  p.partials = {parts(acc), parts(max), parts(sum)};
  p.dtype = dtype_code(type);
  p.batch = narrow("batch", rows[0]);
  p.qo_len = narrow("qo_len", rows[1]);
  p.num_qo_heads = narrow("num_qo_heads", rows[2]);
  p.num_splits = narrow("num_splits", rows[3]);
  p.head_dim = narrow("head_dim", acc.shape[4]);
  p.sinks = sinks_of(call, p.num_qo_heads);
  set_results(call, p, type, {p.batch, p.qo_len, p.num_qo_heads, p.head_dim});
  call.launch(call.variant(), &p);
}

void run_merge_states(Call& call) {
  const ElementType type = element_type(call.file().inputs, "states");
  const TensorEntry& states = call.input("states", type, {-1, -1, -1, -1, -1});
  const TensorEntry& lse =
      call.input("states_lse", ElementType::f32, Shape(states.shape.begin(), states.shape.end() - 1));
  TensorEntry one_state = lse;
  one_state.shape[0] = 1;
  check_contiguous(one_state);
  const Shape strides = row_strides(states);
  StatesParams p = {};
  p.states = call.address(states);
  p.states_stride = strides[0];
  p.states_row_stride = {strides[1], strides[2], strides[3]};
  p.states_lse = static_cast<const float*>(call.address(lse));
  p.states_lse_stride = lse.shape[0] > 1 ? lse.strides[0] : 0;
  p.dtype = dtype_code(type);
  p.num_states = narrow("num_states", states.shape[0]);
  p.batch = narrow("batch", states.shape[1]);
  p.qo_len = narrow("qo_len", states.shape[2]);
  p.num_qo_heads = narrow("num_qo_heads", states.shape[3]);
  p.head_dim = narrow("head_dim", states.shape[4]);
  set_results(call, p, type, {p.batch, p.qo_len, p.num_qo_heads, p.head_dim});
  call.launch(call.variant(), &p);
}

}  // namespace spark::runner
