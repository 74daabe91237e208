// The calls that a compiler puts before loads and stores with -fsanitize=thread. No sanitizer library is linked: these
// functions take its place.
#include "emulator/block.h"
#include "emulator/watch.h"

#if defined(SPARK_SANITIZE_RACE) || defined(SPARK_SANITIZE_MEMORY)

namespace spark::emulator {
namespace {

void note(const void* address, size_t bytes, AccessKind kind, const void* return_address) {
  if (current_thread == nullptr) return;  // a launcher, on the host
  Thread& thread = running_thread();
  const char* p = static_cast<const char*>(address);
  if (p >= thread.stack_low && p < thread.stack_high) return;  // the many: told apart before all else
  watch::access(thread, {address, bytes, kind, place_of(return_address)});
}

template <typename T, typename Update>
T update(volatile T* address, Update next, const void* return_address) {
  note(const_cast<const T*>(address), sizeof(T), AccessKind::kAtomic, return_address);
  T seen = __atomic_load_n(address, __ATOMIC_SEQ_CST);
  while (!__atomic_compare_exchange_n(address, &seen, next(seen), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
  }
  return seen;
}

}  // namespace
}  // namespace spark::emulator

using spark::emulator::AccessKind;
using spark::emulator::note;
using spark::emulator::update;

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

#define SPARK_ACCESS(bytes)                                                \
  void __tsan_read##bytes(void* p) {                                       \
    note(p, bytes, AccessKind::kRead, __builtin_return_address(0));        \
  }                                                                        \
  void __tsan_write##bytes(void* p) {                                      \
    note(p, bytes, AccessKind::kWrite, __builtin_return_address(0));       \
  }                                                                        \
  void __tsan_volatile_read##bytes(void* p) {                              \
    note(p, bytes, AccessKind::kStrongRead, __builtin_return_address(0));  \
  }                                                                        \
  void __tsan_volatile_write##bytes(void* p) {                             \
    note(p, bytes, AccessKind::kStrongWrite, __builtin_return_address(0)); \
  }
SPARK_ACCESS(1)
SPARK_ACCESS(2)
SPARK_ACCESS(4)
SPARK_ACCESS(8)
SPARK_ACCESS(16)
#undef SPARK_ACCESS

#define SPARK_UNALIGNED(bytes)                                             \
  void __tsan_unaligned_read##bytes(void* p) {                             \
    note(p, bytes, AccessKind::kRead, __builtin_return_address(0));        \
  }                                                                        \
  void __tsan_unaligned_write##bytes(void* p) {                            \
    note(p, bytes, AccessKind::kWrite, __builtin_return_address(0));       \
  }                                                                        \
  void __tsan_unaligned_volatile_read##bytes(void* p) {                    \
    note(p, bytes, AccessKind::kStrongRead, __builtin_return_address(0));  \
  }                                                                        \
  void __tsan_unaligned_volatile_write##bytes(void* p) {                   \
    note(p, bytes, AccessKind::kStrongWrite, __builtin_return_address(0)); \
  }
SPARK_UNALIGNED(2)
SPARK_UNALIGNED(4)
SPARK_UNALIGNED(8)
SPARK_UNALIGNED(16)
#undef SPARK_UNALIGNED

void __tsan_read_range(void* p, unsigned long bytes) {
  note(p, bytes, AccessKind::kRead, __builtin_return_address(0));
}
void __tsan_write_range(void* p, unsigned long bytes) {
  note(p, bytes, AccessKind::kWrite, __builtin_return_address(0));
}

// Atomics of the host's own kind; CUDA's are in atomics.h.
#define SPARK_FETCH(bits, T, name, expression)                                                                 \
  T __tsan_atomic##bits##_##name(volatile T* p, T value, int) {                                                \
    return update(p, [value](T old) -> T { return static_cast<T>(expression); }, __builtin_return_address(0)); \
  }
#define SPARK_ATOMICS(bits, T)                                                                         \
  T __tsan_atomic##bits##_load(const volatile T* p, int) {                                             \
    note(const_cast<const T*>(p), sizeof(T), AccessKind::kStrongRead, __builtin_return_address(0));    \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                       \
  }                                                                                                    \
  void __tsan_atomic##bits##_store(volatile T* p, T value, int) {                                      \
    note(const_cast<const T*>(p), sizeof(T), AccessKind::kStrongWrite, __builtin_return_address(0));   \
    __atomic_store_n(p, value, __ATOMIC_SEQ_CST);                                                      \
  }                                                                                                    \
  SPARK_FETCH(bits, T, exchange, ((void)old, value))                                                   \
  SPARK_FETCH(bits, T, fetch_add, old + value)                                                         \
  SPARK_FETCH(bits, T, fetch_sub, old - value)                                                         \
  SPARK_FETCH(bits, T, fetch_and, old& value)                                                          \
  SPARK_FETCH(bits, T, fetch_or, old | value)                                                          \
  SPARK_FETCH(bits, T, fetch_xor, old ^ value)                                                         \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile T* p, T* expected, T value, int, int) {   \
    note(const_cast<const T*>(p), sizeof(T), AccessKind::kAtomic, __builtin_return_address(0));        \
    return __atomic_compare_exchange_n(p, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
  }                                                                                                    \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile T* p, T* expected, T value, int, int) {     \
    return __tsan_atomic##bits##_compare_exchange_strong(p, expected, value, 0, 0);                    \
  }                                                                                                    \
  T __tsan_atomic##bits##_compare_exchange_val(volatile T* p, T expected, T value, int, int) {         \
    __tsan_atomic##bits##_compare_exchange_strong(p, &expected, value, 0, 0);                          \
    return expected;                                                                                   \
  }
SPARK_ATOMICS(8, unsigned char)
SPARK_ATOMICS(16, unsigned short)
SPARK_ATOMICS(32, unsigned int)
SPARK_ATOMICS(64, unsigned long)
#undef SPARK_ATOMICS
#undef SPARK_FETCH

void __tsan_atomic_thread_fence(int) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
void __tsan_atomic_signal_fence(int) {}
}

#endif
