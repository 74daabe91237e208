// Stacks and the context switch.
#include "emulator/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>

namespace spark::emulator {
namespace {

constexpr size_t kPage = 64 * 1024;  // the largest page size of the hosts we run on
constexpr size_t kStack = 128 * 1024;
constexpr size_t kStride = kPage + kStack;
constexpr size_t kColours = 16;
constexpr size_t kColourStep = 320;  // 5 cache lines: 16 tops cover a 4 KiB way with little overlap

}  // namespace

Stacks::~Stacks() {
  if (base_ != nullptr) munmap(base_, count_ * kStride);
}

bool Stacks::reserve(int count) {
  if (count <= count_) return true;
  if (base_ != nullptr) munmap(base_, count_ * kStride);
  base_ = nullptr;
  count_ = 0;
  void* memory = mmap(nullptr, count * kStride, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  base_ = static_cast<char*>(memory);
  count_ = count;
  for (int i = 0; i < count; ++i) {
    if (mprotect(low(i), kStack, PROT_READ | PROT_WRITE) != 0) {
      munmap(base_, count_ * kStride);
      base_ = nullptr;
      count_ = 0;
      return false;
    }
  }
  return true;
}

char* Stacks::low(int index) const {
  return base_ + index * kStride + kPage;
}

char* Stacks::high(int index) const {
  return low(index) + kStack - (index % kColours) * kColourStep;
}

int Stacks::guard_at(const void* address) const {
  const char* p = static_cast<const char*>(address);
  if (base_ == nullptr || p < base_ || p >= base_ + count_ * kStride) return -1;
  const size_t offset = p - base_;
  return offset % kStride < kPage ? static_cast<int>(offset / kStride) : -1;
}

#if defined(SPARK_EMULATOR_USES_UCONTEXT)

void prepare_context(Context& context, char* low, char* high, void (*entry)()) {
  getcontext(&context.machine);
  context.machine.uc_stack.ss_sp = low;
  context.machine.uc_stack.ss_size = (high - low) / 16 * 16;
  context.machine.uc_link = nullptr;
  makecontext(&context.machine, entry, 0);
}

#elif defined(__x86_64__)

// Saved from the stack pointer up: r15 r14 r13 r12 rbx rbp, then the address that ret jumps to.
void prepare_context(Context& context, char* low, char* high, void (*entry)()) {
  (void)low;
  auto* top = reinterpret_cast<uint64_t*>(reinterpret_cast<uintptr_t>(high) / 16 * 16);
  // At its first instruction entry() must see rsp % 16 == 8, as after a call; the word there is its return address, 0,
  // where unwinding ends.
  uint64_t* at_entry = top - 1;
  *at_entry = 0;
  at_entry[-1] = reinterpret_cast<uint64_t>(entry);
  std::memset(at_entry - 7, 0, 6 * sizeof(uint64_t));
  context.stack_pointer = at_entry - 7;
}

asm(R"(
.pushsection .text
.p2align 4
.globl spark_emulator_switch
.hidden spark_emulator_switch
.type spark_emulator_switch, @function
spark_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size spark_emulator_switch, .-spark_emulator_switch
.popsection
)");

#else

// Saved from the stack pointer up: x19 … x28, x29, x30 (where ret goes), d8 … d15.
void prepare_context(Context& context, char* low, char* high, void (*entry)()) {
  (void)low;
  constexpr int kWords = 20;
  auto* saved = reinterpret_cast<uint64_t*>(reinterpret_cast<uintptr_t>(high) / 16 * 16) - kWords;
  std::memset(saved, 0, kWords * sizeof(uint64_t));
  saved[11] = reinterpret_cast<uint64_t>(entry);
  context.stack_pointer = saved;
}

asm(R"(
.pushsection .text
.p2align 4
.globl spark_emulator_switch
.hidden spark_emulator_switch
.type spark_emulator_switch, %function
spark_emulator_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size spark_emulator_switch, .-spark_emulator_switch
.popsection
)");

#endif

}  // namespace spark::emulator
