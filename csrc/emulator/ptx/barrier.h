// Named barriers on the emulator; csrc/ptx/barrier.h says what they do.
#pragma once

#include "common/platform.h"

namespace spark::ptx {

inline void bar_sync(int id, int threads, emulator::Site at = emulator::Site::here()) {
  emulator::run_barrier({"bar.sync", id, threads, true, false}, at);
}

inline void bar_arrive(int id, int threads, emulator::Site at = emulator::Site::here()) {
  emulator::run_barrier({"bar.arrive", id, threads, false, false}, at);
}

}  // namespace spark::ptx
