// prefetch in the emulator: nothing to do, since nothing is read.
#pragma once

namespace spark::ptx {

inline void prefetch_l2(const void*) {}

}  // namespace spark::ptx
