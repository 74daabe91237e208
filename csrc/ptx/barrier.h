// bar: the block's named barriers, 0 to 15 (0 is __syncthreads). `threads` is a multiple of the warp size and counts
// those that sync and those that arrive.
#pragma once

#include "common/platform.h"

namespace spark::ptx {

SPARK_DEVICE void bar_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Counts this warp in without waiting.
SPARK_DEVICE void bar_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace spark::ptx
