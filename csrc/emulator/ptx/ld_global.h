// ld.global on the emulator; csrc/ptx/ld_global.h says what it does.
#pragma once

#include "common/types.h"

namespace spark::ptx {

inline Vec16 ld_global_nc_16(const void* gmem, emulator::Site at = emulator::Site::here()) {
  const size_t misalignment = reinterpret_cast<uintptr_t>(gmem) % sizeof(Vec16);
  if (misalignment != 0) {
    emulator::fail(at, "ld.global.nc: address is %zu bytes past a 16-byte boundary", misalignment);
  }
  if constexpr (emulator::kWatches) emulator::note_read(gmem, sizeof(Vec16), at);
  Vec16 v;
  std::memcpy(&v, gmem, sizeof v);
  return v;
}

}  // namespace spark::ptx
