// The runner's command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spark::runner {

struct Options {
  bool help = false;
  bool list = false;
  std::string write;  // folder for outputs; empty: none
  int repeat = 1;
  bool emulation = false;  // one of the next three was given
  int schedule = -1;       // as spark_emulator_configure takes them
  int async_mode = -1;
  uint64_t seed = 0;
  std::vector<std::string> paths;
};

extern const char kUsage[];

// WrongInput for what is not understood.
Options parse_options(int argc, char** argv);

}  // namespace spark::runner
