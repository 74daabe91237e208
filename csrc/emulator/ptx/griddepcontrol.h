// griddepcontrol on the emulator: a grid starts when the one before it has ended. The race check knows better: until a
// thread has waited, what the kernel ahead writes is not its to read.
#pragma once

#include "common/platform.h"

namespace spark::ptx {

inline void griddepcontrol_wait() {
  if constexpr (emulator::kWatches) emulator::note_dependence_wait();
}
inline void griddepcontrol_launch_dependents() {}

}  // namespace spark::ptx
