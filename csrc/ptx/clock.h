// %clock64: the SM's own count of cycles.
#pragma once

#include "common/platform.h"

namespace spark::ptx {

// Returns once at least so many cycles have gone by.
SPARK_DEVICE void wait_cycles(long long cycles) {
  const long long begin = clock64();
  while (clock64() - begin < cycles) {
  }
}

}  // namespace spark::ptx
