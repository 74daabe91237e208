// Merges the parts of one output row: the body of attn_combine and attn_merge_states.
//
// A part is a row of HEAD_DIM fp32 values under its softmax maximum (log2 domain) and its sum. Where they lie is the
// Source's to say:
//   PartWeight weight(int part)   maximum and sum
//   float4 values(int part)       the four dims of this thread, un-normalised under that maximum
// Four dims to a thread; PART_LANES threads share a dim group and take every PART_LANES-th part.
// A sink is one more logit of the row in the denominator, without a value.
// A part that saw nothing has sum 0: it weighs 0, whatever its values hold. (Not max -inf: a NaN score leaves the
// maximum at -inf and must still reach the output.)
#pragma once

#include "attention/params.h"
#include "attention/softmax.cuh"
#include "common/memory.h"
#include "common/types.h"
#include "common/warp.h"

namespace spark {

struct PartWeight {
  float max;
  float sum;
};

// What a part weighs under the maximum of all; negative for one that saw nothing.
SPARK_DEVICE float part_factor(const PartWeight& part, float max) {
  return part.sum == 0.0f ? -1.0f : rescale_factor(part.max, max);
}

// acc += factor * values
SPARK_DEVICE void accumulate_part(float4& acc, const float4& values, float factor) {
  acc.x = fmaf(factor, values.x, acc.x);
  acc.y = fmaf(factor, values.y, acc.y);
  acc.z = fmaf(factor, values.z, acc.z);
  acc.w = fmaf(factor, values.w, acc.w);
}

// The dims [4 * vector, 4 * vector + 4) and the lane among the parts that a thread has.
template <int HEAD_DIM>
struct MergeThread {
  static constexpr int VECTORS = HEAD_DIM / 4;
  static constexpr int PART_LANES = SPARK_BLOCK / VECTORS;
  static_assert(PART_LANES >= 1, "a row of four-dim vectors fits the block");
  int vector;
  int part_lane;
};

template <int HEAD_DIM>
SPARK_DEVICE MergeThread<HEAD_DIM> merge_thread() {
  constexpr int VECTORS = MergeThread<HEAD_DIM>::VECTORS;
  return {static_cast<int>(threadIdx.x) % VECTORS, static_cast<int>(threadIdx.x) / VECTORS};
}

// out_gmem: the row's first element; lse_gmem: the row's lse, nullable; sink: -inf for none. All threads of the block
// take part; every warp finds maximum and sum for itself, so that one CTA barrier is enough.
template <typename T, int HEAD_DIM, typename Source>
SPARK_DEVICE void merge_row(const Source& source, int count, const MergeThread<HEAD_DIM>& self, T* out_gmem,
                            float* lse_gmem, float sink) {
  constexpr int VECTORS = MergeThread<HEAD_DIM>::VECTORS;
  constexpr int PART_LANES = MergeThread<HEAD_DIM>::PART_LANES;
  constexpr int AHEAD = 8 * PART_LANES <= 32 ? 8 : 32 / PART_LANES;  // values of a thread under way before any weight
  static_assert(AHEAD >= 1 && AHEAD * PART_LANES <= 32, "their weights lie in the lanes of a warp");
  SHARED_ARRAY(float4, acc_smem, SPARK_BLOCK);  // [PART_LANES, VECTORS]

  const int lane = lane_id();
  const int num_parts = self.part_lane < PART_LANES ? count : 0;  // threads past the last lane take no part
  PartWeight mine = {kNegInf, 0.0f};                              // of part `lane`
  if (lane < count) mine = source.weight(lane);
  float4 ahead[AHEAD];
#pragma unroll
  for (int i = 0; i < AHEAD; ++i) {
    const int part = self.part_lane + i * PART_LANES;
    ahead[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (part < num_parts) ahead[i] = source.values(part);
  }

  MergedRow merged = {mine.max, 0.0f};
#pragma unroll 1
  for (int i = lane + 32; i < count; i += 32) merged.max = fmaxf(merged.max, source.weight(i).max);
  merged.max = warp_max(merged.max);
  if (sink != kNegInf) merged.max = fmaxf(merged.max, sink_to_log2(sink));
  const float factor = part_factor(mine, merged.max);

  // acc[dims of this thread] = sum over this thread's parts
  float4 acc = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
  for (int i = 0; i < AHEAD; ++i) {
    const int part = self.part_lane + i * PART_LANES;
    const float its_factor = __shfl_sync(kFullMask, factor, part % 32);
    if (part < num_parts && !(its_factor < 0.0f)) accumulate_part(acc, ahead[i], its_factor);
  }
#pragma unroll 1
  for (int part = self.part_lane + AHEAD * PART_LANES; part < num_parts; part += PART_LANES) {
    const float its_factor = part_factor(source.weight(part), merged.max);
    if (!(its_factor < 0.0f)) accumulate_part(acc, source.values(part), its_factor);
  }
  acc_smem[threadIdx.x] = acc;

  float sum = factor < 0.0f ? 0.0f : factor * mine.sum;
#pragma unroll 1
  for (int i = lane + 32; i < count; i += 32) {
    const PartWeight part = source.weight(i);
    if (part.sum != 0.0f) sum += rescale_factor(part.max, merged.max) * part.sum;
  }
  merged.sum = warp_sum(sum);
  if (sink != kNegInf) merged.sum += exp2_fast(sink_to_log2(sink) - softmax_shift(merged.max));
  __syncthreads();  // all part lanes' sums are written, all parts are read: out and lse may be one of them

  if (self.part_lane == 0) {
    for (int lane = 1; lane < PART_LANES; ++lane) {
      const float4 part = acc_smem[lane * VECTORS + self.vector];
      acc.x += part.x;
      acc.y += part.y;
      acc.z += part.z;
      acc.w += part.w;
    }
    const float inverse = merged.sum == 0.0f ? 0.0f : 1.0f / merged.sum;
    *reinterpret_cast<uint2*>(out_gmem + self.vector * 4) =
        make_uint2(pack2<T>(acc.x * inverse, acc.y * inverse), pack2<T>(acc.z * inverse, acc.w * inverse));
  }
  if (lse_gmem != nullptr && threadIdx.x == 0) {
    *lse_gmem = row_lse(merged, sink);
  }
}

}  // namespace spark
