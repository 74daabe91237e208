// cp.async: 16-byte copies from global to shared memory that pass no register (sm_80 and up).
#pragma once

#include "common/platform.h"

namespace spark::ptx {

// cp.async.cg.shared.global.L2::128B. Both addresses are 16-byte aligned. With valid false the 16 bytes become zero and
// gmem is not read.
SPARK_DEVICE void cp_async_cg_16(void* smem, const void* gmem, bool valid) {
  const uint32_t smem_address = static_cast<uint32_t>(__cvta_generic_to_shared(smem));
  const int source_bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(smem_address), "l"(gmem),
               "r"(source_bytes)
               : "memory");
}

// The same for bytes that no one reads again soon: they leave the L2 ahead of others.
SPARK_DEVICE void cp_async_cg_16_evict_first(void* smem, const void* gmem, bool valid) {
  const uint32_t smem_address = static_cast<uint32_t>(__cvta_generic_to_shared(smem));
  const int source_bytes = valid ? 16 : 0;
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;" ::"r"(smem_address),
               "l"(gmem), "r"(source_bytes), "l"(policy)
               : "memory");
}

SPARK_DEVICE void cp_async_commit_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most N of this thread's latest groups are pending. Other threads see the bytes after a barrier.
template <int N>
SPARK_DEVICE void cp_async_wait_group() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

SPARK_DEVICE void cp_async_wait_all() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

}  // namespace spark::ptx
