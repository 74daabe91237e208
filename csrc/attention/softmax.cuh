// Online softmax in the log2 domain: the running maximum, and weights that are right when nothing was seen.
#pragma once

#include "common/math.h"
#include "common/platform.h"

namespace spark {

// The value to subtract from scores: the maximum, or 0 while every score was -inf (so that no -inf - -inf is formed).
SPARK_DEVICE float softmax_shift(float max) {
  return max == kNegInf ? 0.0f : max;
}

// Factor for sums made under `old_max` once the maximum is `new_max`; 0 when nothing had been seen.
SPARK_DEVICE float rescale_factor(float old_max, float new_max) {
  return exp2_fast(old_max - softmax_shift(new_max));
}

// Maximum and sum of one row: sum = sum of exp2(score - max), max -inf where nothing was seen.
struct MergedRow {
  float max;
  float sum;
};

// A sink, which is a natural logarithm, in the log2 domain: where the product overflows the largest finite number, so
// that no inf - inf is formed below. NaN stays.
SPARK_DEVICE float sink_to_log2(float sink) {
  const float sink_log2 = sink * kLog2E;
  return sink_log2 > kMaxFloat ? kMaxFloat : sink_log2;
}

// One more logit in the denominator. The accumulators are rescaled to the same new maximum.
SPARK_DEVICE void add_sink(MergedRow& row, float sink_log2) {
  const float max = fmaxf(row.max, sink_log2);
  row.sum = row.sum * rescale_factor(row.max, max) + exp2_fast(sink_log2 - softmax_shift(max));
  row.max = max;
}

// The natural-log lse of a row with its sink (-inf for none), which is never below the sink: the row's own maximum ends
// before the largest sinks do. NaN stays.
SPARK_DEVICE float row_lse(const MergedRow& row, float sink) {
  const float lse = row.sum == 0.0f ? kNegInf : (row.max + log2f(row.sum)) * kLn2;
  return lse < sink ? sink : lse;
}

}  // namespace spark
