// How launches run; set through emulator.h or the environment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "emulator/emulator.h"

namespace spark::emulator {

struct Settings {
  int schedule = SPARK_EMULATOR_ASCENDING;
  int async_mode = SPARK_EMULATOR_LATE;
  uint64_t seed = 1;
  int workers = 1;
  size_t shared_limit = 227 * 1024;        // a block's static and dynamic shared memory together, sm_90
  size_t static_shared_limit = 48 * 1024;  // the static part, every arch
};

// A launch works on its own copy.
Settings current_settings();

void note_launch(const char* kernel, size_t length);
void note_error(const char* text);

}  // namespace spark::emulator
