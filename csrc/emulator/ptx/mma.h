// mma.sync m16n8k16 on the emulator; csrc/ptx/mma.h has the layout.
#pragma once

#include "common/types.h"

namespace spark::emulator {

struct MmaSlot {
  const uint32_t* a;
  const uint32_t* b;
  const float* c;
  float* d;
};

extern const Collective kMmaBf16, kMmaFp16;

}  // namespace spark::emulator

namespace spark::ptx {

template <typename T>
inline void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], const float (&c)[4],
                         emulator::Site at = emulator::Site::here()) {
  static_assert(sizeof(T) == 2, "mma_m16n8k16 takes bf16 or fp16");
  emulator::MmaSlot slot{a, b, c, d};
  emulator::run_collective(dtype_of<T> == DType::bf16 ? emulator::kMmaBf16 : emulator::kMmaFp16, ~0u, &slot, at);
}

}  // namespace spark::ptx
