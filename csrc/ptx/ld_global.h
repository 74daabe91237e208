// ld.global: loads that say how they use the caches.
#pragma once

#include "common/types.h"

namespace spark::ptx {

// ld.global.nc.L1::no_allocate.v4.u32: 16 bytes, 16-byte aligned, that no thread writes while the kernel runs.
SPARK_DEVICE Vec16 ld_global_nc_16(const void* gmem) {
  Vec16 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(gmem));
  return v;
}

}  // namespace spark::ptx
