// ldmatrix on the emulator; csrc/ptx/ldmatrix.h has the layout.
#pragma once

#include "common/platform.h"

namespace spark::emulator {

struct LdmatrixSlot {
  const void* row;
  uint32_t* r;
};

extern const Collective kLdmatrix[3];       // x1, x2, x4
extern const Collective kLdmatrixTrans[3];  // x1, x2, x4

}  // namespace spark::emulator

namespace spark::ptx {

inline void ldmatrix_x1(uint32_t (&r)[1], const void* smem_row, emulator::Site at = emulator::Site::here()) {
  emulator::LdmatrixSlot slot{smem_row, r};
  emulator::run_collective(emulator::kLdmatrix[0], ~0u, &slot, at);
}

inline void ldmatrix_x2(uint32_t (&r)[2], const void* smem_row, emulator::Site at = emulator::Site::here()) {
  emulator::LdmatrixSlot slot{smem_row, r};
  emulator::run_collective(emulator::kLdmatrix[1], ~0u, &slot, at);
}

inline void ldmatrix_x4(uint32_t (&r)[4], const void* smem_row, emulator::Site at = emulator::Site::here()) {
  emulator::LdmatrixSlot slot{smem_row, r};
  emulator::run_collective(emulator::kLdmatrix[2], ~0u, &slot, at);
}

inline void ldmatrix_x1_trans(uint32_t (&r)[1], const void* smem_row, emulator::Site at = emulator::Site::here()) {
  emulator::LdmatrixSlot slot{smem_row, r};
  emulator::run_collective(emulator::kLdmatrixTrans[0], ~0u, &slot, at);
}

inline void ldmatrix_x2_trans(uint32_t (&r)[2], const void* smem_row, emulator::Site at = emulator::Site::here()) {
  emulator::LdmatrixSlot slot{smem_row, r};
  emulator::run_collective(emulator::kLdmatrixTrans[1], ~0u, &slot, at);
}

inline void ldmatrix_x4_trans(uint32_t (&r)[4], const void* smem_row, emulator::Site at = emulator::Site::here()) {
  emulator::LdmatrixSlot slot{smem_row, r};
  emulator::run_collective(emulator::kLdmatrixTrans[2], ~0u, &slot, at);
}

}  // namespace spark::ptx
