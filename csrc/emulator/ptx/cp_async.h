// cp.async on the emulator; csrc/ptx/cp_async.h says what it does.
#pragma once

#include "common/platform.h"

namespace spark::ptx {

inline void cp_async_cg_16(void* smem, const void* gmem, bool valid, emulator::Site at = emulator::Site::here()) {
  emulator::async_copy_16(smem, gmem, valid, at);
}

inline void cp_async_cg_16_evict_first(void* smem, const void* gmem, bool valid,
                                       emulator::Site at = emulator::Site::here()) {
  emulator::async_copy_16(smem, gmem, valid, at);
}

inline void cp_async_commit_group() {
  emulator::async_commit_group();
}

template <int N>
inline void cp_async_wait_group() {
  static_assert(N >= 0, "a count of groups");
  emulator::async_wait_group(N);
}

inline void cp_async_wait_all() {
  emulator::async_wait_all();
}

}  // namespace spark::ptx
