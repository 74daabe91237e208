// Atomics and fences. Blocks run on several host threads, so these are the host's own.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "emulator/runtime.h"

namespace spark::emulator {

template <typename T>
struct AtomicWord {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "atomics take 4 or 8 bytes");
};

inline void check_atomic(const void* address, size_t bytes, const char* name, Site at) {
  if (reinterpret_cast<uintptr_t>(address) % bytes != 0) fail(at, "%s: address is not aligned to %zu", name, bytes);
  count_spin(at);
  if constexpr (kWatches) note_atomic(address, bytes, at);
}

// Replaces *address by update(*address) and returns what it was.
template <typename T, typename Update>
__attribute__((no_sanitize("thread"))) inline T atomic_update(T* address, const char* name, Site at, Update update) {
  using Bits = typename AtomicWord<T>::Bits;
  check_atomic(address, sizeof(T), name, at);
  auto* word = reinterpret_cast<Bits*>(address);
  Bits seen = __atomic_load_n(word, __ATOMIC_RELAXED);
  for (;;) {
    T old;
    std::memcpy(&old, &seen, sizeof old);
    const T updated = update(old);
    Bits wanted;
    std::memcpy(&wanted, &updated, sizeof wanted);
    if (__atomic_compare_exchange_n(word, &seen, wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return old;
  }
}

template <typename T>
struct Identity {
  using type = T;
};
template <typename T>
using NotDeduced = typename Identity<T>::type;

}  // namespace spark::emulator

#define SPARK_ATOMIC(name, expression)                                                                     \
  template <typename T>                                                                                    \
  inline T name(T* address, spark::emulator::NotDeduced<T> value,                                          \
                spark::emulator::Site at = spark::emulator::Site::here()) {                                \
    return spark::emulator::atomic_update(address, #name, at, [value](T old) -> T { return expression; }); \
  }
SPARK_ATOMIC(atomicAdd, old + value)
SPARK_ATOMIC(atomicSub, old - value)
SPARK_ATOMIC(atomicMin, value < old ? value : old)
SPARK_ATOMIC(atomicMax, old < value ? value : old)
SPARK_ATOMIC(atomicExch, ((void)old, value))
SPARK_ATOMIC(atomicAnd, old& value)
SPARK_ATOMIC(atomicOr, old | value)
SPARK_ATOMIC(atomicXor, old ^ value)
SPARK_ATOMIC(atomicInc, old >= value ? T(0) : old + T(1))
SPARK_ATOMIC(atomicDec, old == T(0) || old > value ? value : old - T(1))
#undef SPARK_ATOMIC

template <typename T>
inline T atomicCAS(T* address, spark::emulator::NotDeduced<T> compare, spark::emulator::NotDeduced<T> value,
                   spark::emulator::Site at = spark::emulator::Site::here()) {
  return spark::emulator::atomic_update(address, "atomicCAS", at,
                                        [=](T old) -> T { return old == compare ? value : old; });
}

// A watched grid runs on one host thread, and -fsanitize=thread takes no host fence.
inline void spark_fence(bool device_scope) {
  if constexpr (spark::emulator::kWatches) {
    spark::emulator::note_fence(device_scope);
  } else {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
  }
}

inline void __threadfence_block() {
  spark_fence(false);
}
inline void __threadfence() {
  spark_fence(true);
}
inline void __threadfence_system() {
  spark_fence(true);
}
