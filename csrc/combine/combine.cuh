// attn_combine: merges the un-normalised partial outputs of the splits into out and lse.
//
// grid: [qo_len * num_qo_heads, batch]; one CTA merges the num_splits partials of one output row.
#pragma once

#include "attention/geometry.h"
#include "combine/merge.cuh"
#include "ptx/griddepcontrol.h"

namespace spark {

// The partials of one output row, as its decode kernel left them.
template <int HEAD_DIM>
struct SplitSource {
  const float* max_gmem;  // [num_splits]
  const float* sum_gmem;  // [num_splits]
  const float* acc_gmem;  // [num_splits, HEAD_DIM], from this thread's dims on

  SPARK_DEVICE PartWeight weight(int split) const { return {max_gmem[split], sum_gmem[split]}; }
  SPARK_DEVICE float4 values(int split) const {
    return *reinterpret_cast<const float4*>(acc_gmem + static_cast<int64_t>(split) * HEAD_DIM);
  }
};

constexpr unsigned MOST_CTAS_BESIDE_NEXT = 64;

template <typename T, int HEAD_DIM>
__global__ void __launch_bounds__(SPARK_BLOCK) attn_combine_kernel(const __grid_constant__ CombineParams p) {
  const int position = blockIdx.x / p.num_qo_heads;
  const int head = blockIdx.x % p.num_qo_heads;
  const int batch = blockIdx.y;
  const MergeThread<HEAD_DIM> self = merge_thread<HEAD_DIM>();
  const int64_t first = partial_index(batch, p.qo_len, position, p.num_qo_heads, head, p.num_splits, 0);
  const SplitSource<HEAD_DIM> source{p.partials.max + first, p.partials.sum + first,
                                     p.partials.acc + first * HEAD_DIM + self.vector * 4};
  T* out_gmem = static_cast<T*>(p.out) + element_offset(p.out_stride, batch, position, head);
  const int64_t row = (static_cast<int64_t>(batch) * p.qo_len + position) * p.num_qo_heads + head;
  float* lse_gmem = p.lse == nullptr ? nullptr : p.lse + row;
  const float sink = p.sinks == nullptr ? kNegInf : p.sinks[head];

  ptx::griddepcontrol_wait();  // the partials are written
  // Not before, and not from a merge that is on many SMs: the next call's CTAs would take their places beside it,
  // several on some SMs and none on others. docs/kernels/decode.md
  if (gridDim.x * gridDim.y <= MOST_CTAS_BESIDE_NEXT) ptx::griddepcontrol_launch_dependents();
  merge_row<T, HEAD_DIM>(source, p.num_splits, self, out_gmem, lse_gmem, sink);
}

}  // namespace spark
