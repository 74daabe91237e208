// prefetch: asks for a line ahead of its use, and waits for nothing (sm_80 and up).
#pragma once

#include "common/platform.h"

namespace spark::ptx {

// The L2 line that holds the byte at gmem.
SPARK_DEVICE void prefetch_l2(const void* gmem) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(gmem));
}

}  // namespace spark::ptx
