// Small arithmetic that kernels and launchers share.
#pragma once

#include "common/platform.h"

namespace spark {

inline constexpr float kLog2E = 1.44269504088896340736f;
inline constexpr float kLn2 = 0.69314718055994530942f;
inline constexpr float kMaxFloat = __builtin_bit_cast(float, 0x7f7fffffu);
inline constexpr float kNegInf = __builtin_bit_cast(float, 0xff800000u);  // -inf; NVRTC has no __builtin_huge_valf

template <typename T>
SPARK_HOST_DEVICE constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

template <typename T>
SPARK_HOST_DEVICE constexpr T round_up(T a, T multiple) {
  return ceil_div(a, multiple) * multiple;
}

}  // namespace spark

#include "ptx/ex2.h"

namespace spark {

// 2^x by the one-instruction approximation: relative error below 2^-22, results under 2^-126 become 0.
SPARK_DEVICE float exp2_fast(float x) {
  return ptx::ex2_approx_ftz(x);
}

}  // namespace spark
