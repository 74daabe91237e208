// From a raw q . k to the score that the softmax takes: capped, scaled, masked. Which of it is on is uniform over the
// launch.
#pragma once

#include "attention/geometry.h"
#include "common/math.h"
#include "common/platform.h"

namespace spark {

// The mask's row for one query of one head, one byte a key; nullptr where there is no mask.
SPARK_DEVICE const uint8_t* mask_row(const AttentionParams& p, int batch, int head, int position) {
  if (p.mask == nullptr) return nullptr;
  return p.mask + batch * p.mask_stride.batch + head * p.mask_stride.head + position * p.mask_stride.row;
}

// A raw q . k such that times scale_log2 it is the soft-capped score cap * tanh(scale * q . k / cap), in the log2
// domain. tanh(x) is formed as 1 - 2 / (1 + exp(2x)), whose error stays at fp32's: under --use_fast_math tanhf has 11
// bits.
SPARK_DEVICE float soft_cap(const AttentionParams& p, float raw) {
  return p.softcap * (1.0f - 2.0f / (1.0f + exp2_fast(raw * p.softcap_scale)));
}

// The score in the log2 domain.
SPARK_DEVICE float score_log2(const AttentionParams& p, float raw) {
  return (p.softcap == 0.0f ? raw : soft_cap(p, raw)) * p.scale_log2;
}

// Whether a key lies in the range: one unsigned compare for both ends.
SPARK_DEVICE bool contains(const KvRange& keys, int kv) {
  return static_cast<unsigned>(kv - keys.begin) < static_cast<unsigned>(keys.end - keys.begin);
}

// Whether a query sees a key; the mask's row is nullptr where there is no mask, and is not read outside of the range.
SPARK_DEVICE bool key_visible(const KvRange& keys, const uint8_t* mask, int kv) {
  return contains(keys, kv) && (mask == nullptr || mask[kv] != 0);
}

}  // namespace spark
