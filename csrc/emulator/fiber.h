// Fibers: a stack each, and a switch between them that saves only what the calling convention says a callee keeps.
// The switch is in assembly for x86-64 and AArch64 (a top-level asm, so this file is not for -flto), ucontext
// elsewhere.
#pragma once

#include <cstddef>

#if (!defined(__x86_64__) && !defined(__aarch64__)) || defined(SPARK_EMULATOR_UCONTEXT)
#define SPARK_EMULATOR_USES_UCONTEXT 1
#include <ucontext.h>
#endif

namespace spark::emulator {

struct Context {
#if defined(SPARK_EMULATOR_USES_UCONTEXT)
  ucontext_t machine;
#else
  void* stack_pointer;
#endif
};

// Makes `context` start in entry(), which never returns, when it is first switched to. The stack is [low, high).
void prepare_context(Context& context, char* low, char* high, void (*entry)());

#if defined(SPARK_EMULATOR_USES_UCONTEXT)
inline void switch_context(Context& from, Context& to) {
  swapcontext(&from.machine, &to.machine);
}
#else
extern "C" void spark_emulator_switch(void** from, void* to);
inline void switch_context(Context& from, Context& to) {
  spark_emulator_switch(&from.stack_pointer, to.stack_pointer);
}
#endif

// `count` stacks in one mapping, a guard page under each. Tops are spread over cache sets: at equal page offsets the
// threads of a warp would evict each other's frames.
class Stacks {
 public:
  Stacks() = default;
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  ~Stacks();

  // False when the system gives no more memory or mappings. Keeps what it has when that is enough.
  bool reserve(int count);

  char* low(int index) const;
  char* high(int index) const;
  // The stack whose guard page holds `address`, or -1.
  int guard_at(const void* address) const;

 private:
  char* base_ = nullptr;
  int count_ = 0;
};

}  // namespace spark::emulator
