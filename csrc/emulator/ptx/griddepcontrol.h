// griddepcontrol on the emulator: a grid starts when the one before it has ended, but until it has waited, what that
// one wrote is not its to read: it is hidden from a dependent launch, and the race check tells who reads it.
#pragma once

#include "common/platform.h"

namespace spark::ptx {

inline void griddepcontrol_wait(emulator::Site at = emulator::Site::here()) {
  emulator::wait_for_kernels_ahead(at);
}
inline void griddepcontrol_launch_dependents() {}

}  // namespace spark::ptx
