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

}  // namespace spark
