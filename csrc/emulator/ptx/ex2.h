// ex2.approx.ftz.f32 on the emulator: the host's exp2f, with subnormal inputs and results flushed to zero.
#pragma once

#include "common/platform.h"

namespace spark::ptx {

inline float ex2_approx_ftz(float x) {
  return x < -126.0f ? 0.0f : exp2f(x);
}

}  // namespace spark::ptx
