// From a raw q . k to the score that the softmax takes: scaled, capped, masked. Everything here is uniform over the
// launch, and costs a compare where it is off.
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

// The score in the log2 domain, of scale * q . k or of its soft-capped value cap * tanh(scale * q . k / cap).
// tanh(x) is formed as 1 - 2 / (1 + exp(2x)), whose error stays at fp32's: under --use_fast_math tanhf has 11 bits.
SPARK_DEVICE float score_log2(const AttentionParams& p, float raw) {
  if (p.softcap_log2 == 0.0f) return raw * p.scale_log2;  // uniform
  return p.softcap_log2 * (1.0f - 2.0f / (1.0f + exp2_fast(raw * p.softcap_scale)));
}

// Whether a key lies in the range: one unsigned compare for both ends.
SPARK_DEVICE bool contains(const KvRange& keys, int kv) {
  return static_cast<unsigned>(kv - keys.begin) < static_cast<unsigned>(keys.end - keys.begin);
}

// Whether a query sees a key; the mask's row is nullptr where there is no mask, and is not read past the range.
SPARK_DEVICE bool key_visible(const KvRange& keys, const uint8_t* mask, int kv) {
  return contains(keys, kv) && (mask == nullptr || mask[kv] != 0);
}

}  // namespace spark
