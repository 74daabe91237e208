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

// Maximum and sum over all parts; every warp computes them for itself, so no CTA barrier is needed.
template <typename Source>
SPARK_DEVICE MergedRow merge_softmax(const Source& source, int num_parts) {
  // the first 32 parts' pairs are loaded together, ahead of the reduction
  const int lane = lane_id();
  const PartWeight first = lane < num_parts ? source.weight(lane) : PartWeight{kNegInf, 0.0f};
  float max = first.max;
  for (int i = lane + 32; i < num_parts; i += 32) max = fmaxf(max, source.weight(i).max);
  max = warp_max(max);
  float sum = first.sum != 0.0f ? rescale_factor(first.max, max) * first.sum : 0.0f;
  for (int i = lane + 32; i < num_parts; i += 32) {
    const PartWeight part = source.weight(i);
    if (part.sum != 0.0f) sum += rescale_factor(part.max, max) * part.sum;
  }
  return {max, warp_sum(sum)};
}

// acc += the part's factor * its values
SPARK_DEVICE void accumulate_part(float4& acc, const float4& values, const PartWeight& part, float max) {
  if (part.sum == 0.0f) return;
  const float factor = rescale_factor(part.max, max);
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

// out_gmem: the row's first element; lse_gmem: the row's lse, nullable; sink: -inf for
// none. All threads of the block take part.
template <typename T, int HEAD_DIM, typename Source>
SPARK_DEVICE void merge_row(const Source& source, int count, const MergeThread<HEAD_DIM>& self, T* out_gmem,
                            float* lse_gmem, float sink) {
  constexpr int VECTORS = MergeThread<HEAD_DIM>::VECTORS;
  constexpr int PART_LANES = MergeThread<HEAD_DIM>::PART_LANES;
  constexpr int AHEAD = 4;                      // values of a thread that are under way before any weight is known
  SHARED_ARRAY(float4, acc_smem, SPARK_BLOCK);  // [PART_LANES, VECTORS]

  const int num_parts = self.part_lane < PART_LANES ? count : 0;  // threads past the last lane take no part
  float4 ahead[AHEAD];
#pragma unroll
  for (int i = 0; i < AHEAD; ++i) {
    const int part = self.part_lane + i * PART_LANES;
    if (part < num_parts) ahead[i] = source.values(part);
  }
  MergedRow merged = merge_softmax(source, count);
  if (sink != kNegInf) add_sink(merged, sink_to_log2(sink));

  // acc[dims of this thread] = sum over this thread's parts
  float4 acc = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
  for (int i = 0; i < AHEAD; ++i) {
    const int part = self.part_lane + i * PART_LANES;
    if (part < num_parts) accumulate_part(acc, ahead[i], source.weight(part), merged.max);
  }
  for (int part = self.part_lane + AHEAD * PART_LANES; part < num_parts; part += PART_LANES) {
    accumulate_part(acc, source.values(part), source.weight(part), merged.max);
  }
  acc_smem[threadIdx.x] = acc;
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
