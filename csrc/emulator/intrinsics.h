// CUDA's arithmetic, bit and cache functions that the host's own headers lack. In the global namespace, as in CUDA.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "emulator/conversions.h"
#include "emulator/runtime.h"

inline float __uint_as_float(unsigned x) {
  return spark::emulator::bits_to_float(x);
}
inline unsigned __float_as_uint(float x) {
  return spark::emulator::float_to_bits(x);
}
inline float __int_as_float(int x) {
  return spark::emulator::bits_to_float(static_cast<unsigned>(x));
}
inline int __float_as_int(float x) {
  return static_cast<int>(spark::emulator::float_to_bits(x));
}

inline int __popc(unsigned x) {
  return __builtin_popcount(x);
}
inline int __popcll(unsigned long long x) {
  return __builtin_popcountll(x);
}
inline int __ffs(int x) {
  return __builtin_ffs(x);
}
inline int __ffsll(long long x) {
  return __builtin_ffsll(x);
}
inline int __clz(int x) {
  return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x));
}
inline int __clzll(long long x) {
  return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x));
}

inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (x >> i & 1u) << (31 - i);
  return reversed;
}

// The low three bits of selector nibble i pick one of the eight bytes of y:x for byte i. (prmt's sign bit is no part of
// this function: an H200 ignores it.)
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const uint64_t bytes = static_cast<uint64_t>(y) << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned byte = selector >> (4 * i) & 7u;
    result |= (static_cast<unsigned>(bytes >> (8 * byte)) & 0xffu) << (8 * i);
  }
  return result;
}

inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32);
}
inline int __mulhi(int a, int b) {
  return static_cast<int>(static_cast<int64_t>(a) * b >> 32);
}

inline float __fmaf_rn(float a, float b, float c) {
  return fmaf(a, b, c);
}
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fdividef(float a, float b) {
  return a / b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline float __frcp_rn(float x) {
  return 1.0f / x;
}
inline float __fsqrt_rn(float x) {
  return sqrtf(x);
}
inline float rsqrtf(float x) {
  return 1.0f / sqrtf(x);
}
inline float __expf(float x) {
  return expf(x);
}
inline float __exp10f(float x) {
  return powf(10.0f, x);
}
inline float __logf(float x) {
  return logf(x);
}
inline float __log2f(float x) {
  return log2f(x);
}
inline float __powf(float x, float y) {
  return powf(x, y);
}
inline float __saturatef(float x) {
  return x > 0.0f ? std::min(x, 1.0f) : 0.0f;
}  // NaN gives 0

// CUDA's conversions saturate and take NaN to 0; a host's are undefined there.
inline int spark_float_to_int(float rounded) {
  if (std::isnan(rounded)) return 0;
  if (rounded >= 2147483648.0f) return 2147483647;
  return rounded < -2147483648.0f ? -2147483647 - 1 : static_cast<int>(rounded);
}
inline int __float2int_rn(float x) {
  return spark_float_to_int(nearbyintf(x));
}
inline int __float2int_rz(float x) {
  return spark_float_to_int(truncf(x));
}
inline int __float2int_rd(float x) {
  return spark_float_to_int(floorf(x));
}
inline int __float2int_ru(float x) {
  return spark_float_to_int(ceilf(x));
}

#define SPARK_MIN_MAX(T)   \
  inline T min(T a, T b) { \
    return b < a ? b : a;  \
  }                        \
  inline T max(T a, T b) { \
    return a < b ? b : a;  \
  }
SPARK_MIN_MAX(int)
SPARK_MIN_MAX(unsigned)
SPARK_MIN_MAX(long)
SPARK_MIN_MAX(unsigned long)
SPARK_MIN_MAX(long long)
SPARK_MIN_MAX(unsigned long long)
#undef SPARK_MIN_MAX
inline float min(float a, float b) {
  return fminf(a, b);
}
inline float max(float a, float b) {
  return fmaxf(a, b);
}
inline double min(double a, double b) {
  return fmin(a, b);
}
inline double max(double a, double b) {
  return fmax(a, b);
}

// Loads and stores with cache hints: on a host, loads and stores.
#define SPARK_LOAD(name)      \
  template <typename T>       \
  inline T name(const T* p) { \
    return *p;                \
  }
SPARK_LOAD(__ldg)
SPARK_LOAD(__ldca)
SPARK_LOAD(__ldcg)
SPARK_LOAD(__ldcs)
SPARK_LOAD(__ldcv)
#undef SPARK_LOAD
#define SPARK_STORE(name)           \
  template <typename T>             \
  inline void name(T* p, T value) { \
    *p = value;                     \
  }
SPARK_STORE(__stwb)
SPARK_STORE(__stcg)
SPARK_STORE(__stcs)
SPARK_STORE(__stwt)
#undef SPARK_STORE

inline void __nanosleep(unsigned, spark::emulator::Site at = spark::emulator::Site::here()) {
  spark::emulator::give_way(at);
}
