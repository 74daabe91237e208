// Shared memory, declared the same way for a GPU and for the emulator. Both kinds are 16-byte aligned.
//   SHARED_ARRAY(float, score_smem, 256);   static: T score_smem[256], one per block
//   DYNAMIC_SHARED(bf16, kv_smem);          dynamic: T* kv_smem, LaunchConfig::dynamic_smem bytes
#pragma once

#include "common/platform.h"

#if defined(SPARK_EMULATOR)

#define SHARED_ARRAY(T, name, N)                 \
  T(&name)                                       \
  [N] = ::spark::emulator::shared_array<T, (N)>( \
      [] {                                       \
        static const char key = 0;               \
        return static_cast<const void*>(&key);   \
      }(),                                       \
      #name)
#define DYNAMIC_SHARED(T, name) T* name = static_cast<T*>(::spark::emulator::dynamic_shared(#name))

#else

namespace spark {
extern __shared__ __align__(16) unsigned char dynamic_smem_bytes[];
}

#define SHARED_ARRAY(T, name, N) __shared__ __align__(alignof(T) > 16 ? alignof(T) : 16) T name[N]
#define DYNAMIC_SHARED(T, name) T* name = reinterpret_cast<T*>(::spark::dynamic_smem_bytes)

#endif
