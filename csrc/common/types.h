// Element types, their conversions and the 16-byte word that kernels move them in.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "common/dtype.h"
#include "common/platform.h"

namespace spark {

using bf16 = __nv_bfloat16;
using fp16 = __half;

template <typename T>
struct DTypeOf {
  static_assert(sizeof(T) == 0, "dtype_of takes bf16 or fp16");
};
template <>
struct DTypeOf<bf16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<fp16> {
  static constexpr DType value = DType::fp16;
};
template <typename T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

// What one thread moves by one vector load: eight 16-bit elements.
struct alignas(16) Vec16 {
  uint32_t word[4];
};

SPARK_HOST_DEVICE float to_float(float x) {
  return x;
}

#if defined(SPARK_EMULATOR)
// Bit-equal to NVIDIA's own host conversions, which an emulated inner loop has no time for.
SPARK_HOST_DEVICE float to_float(bf16 x) {
  return emulator::bf16_to_float(__bfloat16_as_ushort(x));
}
SPARK_HOST_DEVICE float to_float(fp16 x) {
  return emulator::fp16_to_float(__half_as_ushort(x));
}
SPARK_HOST_DEVICE void convert(float x, bf16& out) {
  out = __ushort_as_bfloat16(emulator::float_to_bf16(x));
}
SPARK_HOST_DEVICE void convert(float x, fp16& out) {
  out = __ushort_as_half(emulator::float_to_fp16(x));
}
#else
SPARK_HOST_DEVICE float to_float(bf16 x) {
  return __bfloat162float(x);
}
SPARK_HOST_DEVICE float to_float(fp16 x) {
  return __half2float(x);
}
SPARK_HOST_DEVICE void convert(float x, bf16& out) {
  out = __float2bfloat16_rn(x);
}
SPARK_HOST_DEVICE void convert(float x, fp16& out) {
  out = __float2half_rn(x);
}
#endif
SPARK_HOST_DEVICE void convert(float x, float& out) {
  out = x;
}

// Rounds to nearest even.
template <typename T>
SPARK_HOST_DEVICE T from_float(float x) {
  T out;
  convert(x, out);
  return out;
}

// Two elements in one register, lo in the low half, as mma fragments hold them. Rounds to nearest even.
template <typename T>
SPARK_DEVICE uint32_t pack2(float lo, float hi) {
  static_assert(sizeof(T) == 2, "pack2 takes bf16 or fp16");
#if defined(SPARK_EMULATOR)
  if constexpr (dtype_of<T> == DType::bf16) {
    return emulator::float_to_bf16(lo) | static_cast<uint32_t>(emulator::float_to_bf16(hi)) << 16;
  } else {
    return emulator::float_to_fp16(lo) | static_cast<uint32_t>(emulator::float_to_fp16(hi)) << 16;
  }
#else
  if constexpr (dtype_of<T> == DType::bf16) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(lo, hi);
    return reinterpret_cast<const uint32_t&>(pair);
  } else {
    const __half2 pair = __floats2half2_rn(lo, hi);
    return reinterpret_cast<const uint32_t&>(pair);
  }
#endif
}

template <typename T>
SPARK_DEVICE float2 unpack2(uint32_t pair) {
  static_assert(sizeof(T) == 2, "unpack2 takes bf16 or fp16");
  if constexpr (dtype_of<T> == DType::bf16) {
    return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
  } else {
    return make_float2(to_float(__ushort_as_half(static_cast<uint16_t>(pair))),
                       to_float(__ushort_as_half(static_cast<uint16_t>(pair >> 16))));
  }
}

}  // namespace spark
