// attn_merge_states: merges normalised results over disjoint keys, each an out with its lse.
//
// grid: [qo_len * num_qo_heads, batch]; one CTA merges the num_states rows of one output row.
// A state's out under its lse is what a split's accumulator is under its maximum with sum 1: exp(lse) weighs it.
#pragma once

#include "attention/geometry.h"
#include "combine/merge.cuh"

namespace spark {

// The same row of every state.
template <typename T>
struct StateSource {
  const float* lse_gmem;  // from one state to the next: lse_stride
  const T* out_gmem;      // from one state to the next: out_stride; from this thread's dims on
  int64_t lse_stride;
  int64_t out_stride;

  // A state that saw no key has lse -inf: sum 0.
  SPARK_DEVICE PartWeight weight(int state) const {
    const float lse = lse_gmem[state * lse_stride];
    return {lse * kLog2E, lse == kNegInf ? 0.0f : 1.0f};
  }
  SPARK_DEVICE float4 values(int state) const {
    const uint2 packed = *reinterpret_cast<const uint2*>(out_gmem + state * out_stride);
    const float2 low = unpack2<T>(packed.x), high = unpack2<T>(packed.y);
    return make_float4(low.x, low.y, high.x, high.y);
  }
};

template <typename T, int HEAD_DIM>
__global__ void __launch_bounds__(SPARK_BLOCK) attn_merge_states_kernel(const __grid_constant__ StatesParams p) {
  const int position = blockIdx.x / p.num_qo_heads;
  const int head = blockIdx.x % p.num_qo_heads;
  const int batch = blockIdx.y;
  const MergeThread<HEAD_DIM> self = merge_thread<HEAD_DIM>();
  const int64_t row = (static_cast<int64_t>(batch) * p.qo_len + position) * p.num_qo_heads + head;
  const int64_t first = element_offset(p.states_row_stride, batch, position, head) + self.vector * 4;
  const StateSource<T> source{p.states_lse + row, static_cast<const T*>(p.states) + first, p.states_lse_stride,
                              p.states_stride};
  T* out_gmem = static_cast<T*>(p.out) + element_offset(p.out_stride, batch, position, head);
  merge_row<T, HEAD_DIM>(source, p.num_states, self, out_gmem, p.lse == nullptr ? nullptr : p.lse + row, kNegInf);
}

}  // namespace spark
