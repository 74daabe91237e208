// bf16 and fp16 to and from float on a host: bit-equal to NVIDIA's conversions, without their calls and loops.
#pragma once

#include <cstdint>
#include <cstring>

namespace spark::emulator {

inline float bits_to_float(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

inline uint32_t float_to_bits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}

inline float bf16_to_float(uint16_t bits) {
  return bits_to_float(static_cast<uint32_t>(bits) << 16);
}

// To nearest even; every NaN becomes 0x7fff, as cvt.rn.bf16.f32 gives it.
inline uint16_t float_to_bf16(float x) {
  const uint32_t bits = float_to_bits(x);
  const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : rounded);
}

// Every NaN becomes 0x7fffffff, as cvt.f32.f16 gives it.
inline float fp16_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  const uint32_t rebias = 112u << 23;  // 127 - 15
  const uint32_t normal = (magnitude << 13) + rebias + (magnitude >= 0x7c00u ? rebias : 0u);
  // Below 2^-14 the value is a count of 2^-24; as a multiplication it would depend on the denormals mode.
  const uint32_t subnormal = float_to_bits(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
  const uint32_t number = sign | (magnitude < 0x0400u ? subnormal : normal);
  return bits_to_float(magnitude > 0x7c00u ? 0x7fffffffu : number);
}

// To nearest even; beyond 65519.99 infinity; every NaN becomes 0x7fff, as cvt.rn.f16.f32 gives it.
inline uint16_t float_to_fp16(float x) {
  const uint32_t bits = float_to_bits(x);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7fffu;
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  // Beside 0.5 the last mantissa bit weighs 2^-24, an fp16 subnormal's unit: the addition rounds.
  const uint32_t subnormal = float_to_bits(bits_to_float(magnitude) + 0.5f) - 0x3f000000u;
  const uint32_t normal = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  return static_cast<uint16_t>(sign | (magnitude < 0x38800000u ? subnormal : normal));
}

}  // namespace spark::emulator
