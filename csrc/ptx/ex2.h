// ex2.approx.ftz.f32: 2^x, relative error at most 2^-22.5; subnormal inputs and results become zero, -inf gives +0.
#pragma once

#include "common/platform.h"

namespace spark::ptx {

SPARK_DEVICE float ex2_approx_ftz(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace spark::ptx
