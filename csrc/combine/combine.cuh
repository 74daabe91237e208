// Merges the un-normalised partial outputs of the splits into out and lse.
//
// grid: [qo_len * num_qo_heads, batch]; one CTA merges the num_splits partials of one output row.
// Four dims to a thread; SPLIT_LANES threads share a dim group and take every SPLIT_LANES-th split.
// A sink is one more logit of the row in the denominator, without a value.
// A split that saw nothing has sum 0: it weighs 0, whatever its accumulator holds. (Not max -inf: a NaN score leaves
// the maximum at -inf and must still reach the output.)
#pragma once

#include "attention/geometry.h"
#include "attention/softmax.cuh"
#include "common/memory.h"
#include "common/types.h"
#include "common/warp.h"
#include "ptx/griddepcontrol.h"

namespace spark {

// Maximum and sum over all splits; every warp computes them for itself, so no CTA barrier is needed.
struct MergedRow {
  float max;
  float sum;
};

SPARK_DEVICE MergedRow merge_softmax(const float* max_gmem, const float* sum_gmem, int num_splits) {
  // the first 32 splits' pairs are loaded together, ahead of the reduction
  const int lane = lane_id();
  const float first_max = lane < num_splits ? max_gmem[lane] : kNegInf;
  const float first_sum = lane < num_splits ? sum_gmem[lane] : 0.0f;
  float max = first_max;
  for (int s = lane + 32; s < num_splits; s += 32) max = fmaxf(max, max_gmem[s]);
  max = warp_max(max);
  float sum = first_sum != 0.0f ? rescale_factor(first_max, max) * first_sum : 0.0f;
  for (int s = lane + 32; s < num_splits; s += 32) {
    if (sum_gmem[s] != 0.0f) sum += rescale_factor(max_gmem[s], max) * sum_gmem[s];
  }
  return {max, warp_sum(sum)};
}

// One more logit in the denominator. The accumulators are merged under the same new maximum.
SPARK_DEVICE void add_sink(MergedRow& row, float sink_log2) {
  const float max = fmaxf(row.max, sink_log2);
  row.sum = row.sum * rescale_factor(row.max, max) + exp2_fast(sink_log2 - softmax_shift(max));
  row.max = max;
}

// acc += weight of split s * part
SPARK_DEVICE void accumulate_split(float4& acc, const float4& part, float split_max, float split_sum, float max) {
  if (split_sum == 0.0f) return;
  const float factor = rescale_factor(split_max, max);
  acc.x = fmaf(factor, part.x, acc.x);
  acc.y = fmaf(factor, part.y, acc.y);
  acc.z = fmaf(factor, part.z, acc.z);
  acc.w = fmaf(factor, part.w, acc.w);
}

template <typename T, int HEAD_DIM>
__global__ void __launch_bounds__(SPARK_BLOCK) attn_combine_kernel(const __grid_constant__ CombineParams p) {
  constexpr int VECTORS = HEAD_DIM / 4;
  constexpr int SPLIT_LANES = SPARK_BLOCK / VECTORS;
  constexpr int AHEAD = 4;  // accumulators of a thread that are under way before any weight is known
  static_assert(SPLIT_LANES >= 1, "a row of four-dim vectors fits the block");
  SHARED_ARRAY(float4, acc_smem, SPARK_BLOCK);  // [SPLIT_LANES, VECTORS]

  const int position = blockIdx.x / p.num_qo_heads;
  const int head = blockIdx.x % p.num_qo_heads;
  const int batch = blockIdx.y;
  const int64_t first = partial_index(batch, p.qo_len, position, p.num_qo_heads, head, p.num_splits, 0);
  const float* max_gmem = p.partials.max + first;
  const float* sum_gmem = p.partials.sum + first;
  const int vector = threadIdx.x % VECTORS;
  const int split_lane = threadIdx.x / VECTORS;
  const int num_splits = split_lane < SPLIT_LANES ? p.num_splits : 0;  // threads past the last lane take no split
  const float* acc_gmem = p.partials.acc + first * HEAD_DIM + vector * 4;

  const float sink_log2 = p.sinks == nullptr ? kNegInf : p.sinks[head] * kLog2E;

  ptx::griddepcontrol_wait();  // the partials are written
  float4 ahead[AHEAD];
#pragma unroll
  for (int i = 0; i < AHEAD; ++i) {
    const int s = split_lane + i * SPLIT_LANES;
    if (s < num_splits) ahead[i] = *reinterpret_cast<const float4*>(acc_gmem + static_cast<int64_t>(s) * HEAD_DIM);
  }
  MergedRow merged = merge_softmax(max_gmem, sum_gmem, p.num_splits);
  if (p.sinks != nullptr) add_sink(merged, sink_log2);

  // acc[dims of this thread] = sum over this thread's splits
  float4 acc = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
  for (int i = 0; i < AHEAD; ++i) {
    const int s = split_lane + i * SPLIT_LANES;
    if (s < num_splits) accumulate_split(acc, ahead[i], max_gmem[s], sum_gmem[s], merged.max);
  }
  for (int s = split_lane + AHEAD * SPLIT_LANES; s < num_splits; s += SPLIT_LANES) {
    const float4 part = *reinterpret_cast<const float4*>(acc_gmem + static_cast<int64_t>(s) * HEAD_DIM);
    accumulate_split(acc, part, max_gmem[s], sum_gmem[s], merged.max);
  }
  acc_smem[threadIdx.x] = acc;
  __syncthreads();  // all split lanes' sums are written

  if (split_lane == 0) {
    for (int lane = 1; lane < SPLIT_LANES; ++lane) {
      const float4 part = acc_smem[lane * VECTORS + vector];
      acc.x += part.x;
      acc.y += part.y;
      acc.z += part.z;
      acc.w += part.w;
    }
    const float inverse = merged.sum == 0.0f ? 0.0f : 1.0f / merged.sum;
    T* out_gmem = static_cast<T*>(p.out) + element_offset(p.out_stride, batch, position, head) + vector * 4;
    *reinterpret_cast<uint2*>(out_gmem) =
        make_uint2(pack2<T>(acc.x * inverse, acc.y * inverse), pack2<T>(acc.z * inverse, acc.w * inverse));
  }
  if (p.lse != nullptr && threadIdx.x == 0) {
    const int64_t row = (static_cast<int64_t>(batch) * p.qo_len + position) * p.num_qo_heads + head;
    p.lse[row] = merged.sum == 0.0f ? kNegInf : (merged.max + log2f(merged.sum)) * kLn2;
  }
}

}  // namespace spark
