// Places in the source, small enough to keep one beside every byte: a code address, or a Site that a wrapper was given.
#pragma once

#include <cstdint>
#include <string>

#include "emulator/runtime.h"

namespace spark::emulator {

using Place = uint32_t;

Place place_of(const void* return_address);
Place place_of(Site site);

// "csrc/attention/softmax.cuh:21". A code address is looked up by addr2line in the program's debug information; without
// either the address itself is told.
std::string describe(Place place);

}  // namespace spark::emulator
