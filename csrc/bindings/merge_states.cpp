// merge_states as Python calls it.
#include <tvm/ffi/function.h>

#include "bindings/attention.h"

namespace spark::bindings {
namespace {

// [num_states, batch, qo_len, num_qo_heads]; every state contiguous in itself.
int64_t check_states_lse(const TensorView& lse, const TensorView& states) {
  check_device("lse", lse, states.device());
  check_dtype("lse", lse, FLOAT32);
  check_shape("lse", lse, {states.size(0), states.size(1), states.size(2), states.size(3)});
  int64_t dense = 1;
  for (int axis = 3; axis > 0; --axis) {
    if (lse.size(axis) > 1 && lse.stride(axis) != dense) {
      TVM_FFI_THROW(ValueError) << "lse has stride " << lse.stride(axis) << " on axis " << axis << ", accepted is "
                                << dense << ": each state contiguous";
    }
    dense *= lse.size(axis);
  }
  return lse.size(0) > 1 ? lse.stride(0) : 0;
}

}  // namespace

// states [num_states, batch, qo_len, num_qo_heads, head_dim], states_lse [num_states, batch, qo_len, num_qo_heads].
void merge_states(int64_t variant, TensorView states, TensorView states_lse, TensorView out, Optional<TensorView> lse) {
  check_rank("out", states, 5, "[num_states, batch, qo_len, num_qo_heads, head_dim]");
  check_on_backend(states);
  check_float16("out", states);
  StatesParams p = {};
  p.dtype = dtype_code(states);
  p.num_states = int32_of("num_states", states.size(0));
  p.batch = int32_of("batch", states.size(1));
  p.qo_len = int32_of("qo_len", states.size(2));
  p.num_qo_heads = int32_of("num_qo_heads", states.size(3));
  p.head_dim = int32_of("head_dim", states.size(4));
  const std::array<int64_t, 4> stride = outer_strides<4>("out", states);
  p.states = data_of(states);
  p.states_stride = stride[0];
  p.states_row_stride = {stride[1], stride[2], stride[3]};
  p.states_lse_stride = check_states_lse(states_lse, states);
  p.states_lse = static_cast<const float*>(data_of(states_lse));

  check_shape("out_", out, {states.size(1), states.size(2), states.size(3), states.size(4)});
  check_dtype("out_", out, states.dtype());
  check_device("out_", out, states.device());
  p.out_stride = row_strides("out_", out);
  check_no_overlap("out_", out);
  p.out = data_of(out);
  if (lse.has_value()) {
    check_device("lse_", lse.value(), states.device());
    check_dtype("lse_", lse.value(), FLOAT32);
    check_shape("lse_", lse.value(), {states.size(1), states.size(2), states.size(3)});
    check_contiguous("lse_", lse.value());
    p.lse = static_cast<float*>(data_of(lse.value()));
  }
  if (out.numel() == 0) return;
  const Variant& entry = variant_for("merge_states", variant);
  const LaunchContext context(states.device());
  raise_if_failed(entry.launcher(&p, context.stream()));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(merge_states, merge_states);

}  // namespace spark::bindings
