// The one place where what a kernel does reaches the checks that the build asked for.
#include "emulator/watch.h"

#include <pthread.h>

#include "emulator/block.h"
#include "emulator/memory_check.h"
#include "emulator/race.h"

namespace spark::emulator {
namespace {

// A watched launch runs on one host thread, so neither needs a lock.
RaceCheck& races() {
  static auto* const instance = new RaceCheck;
  return *instance;
}

MemoryCheck& memory() {
  static auto* const instance = new MemoryCheck;
  return *instance;
}

// The launching thread's stack, where a kernel's arguments come from.
bool is_argument(const char* address) {
  static thread_local const char* low = nullptr;
  static thread_local size_t bytes = 0;
  if (low == nullptr) {
    pthread_attr_t attributes;
    void* base = nullptr;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return false;
    pthread_attr_getstack(&attributes, &base, &bytes);
    pthread_attr_destroy(&attributes);
    low = static_cast<const char*>(base);
  }
  return address >= low && address < low + bytes;
}

// The thread's own variables, its arguments, and what threadIdx and its like read.
bool is_private(const Thread& thread, const void* address) {
  const char* p = static_cast<const char*>(address);
  if (p >= thread.stack_low && p < thread.stack_high) return true;
  if (p == reinterpret_cast<const char*>(&current_thread)) return true;
  if (is_argument(p)) return true;
  const auto* threads = reinterpret_cast<const char*>(thread.block->threads.get());
  return p >= threads && p < threads + thread.block->thread_capacity * sizeof(Thread);
}

[[noreturn]] void end_block(Thread& thread, const std::string& where, const std::string& what) {
  Block& block = *thread.block;
  block.error = block_prefix(block) + "thread " + std::to_string(thread.index) + " at " + where + ": " + what;
  switch_context(running_thread().context, block.home);
  __builtin_unreachable();
}

}  // namespace

namespace watch {

void access(Thread& thread, const Access& access) {
  if (access.bytes == 0) return;
  if (!thread.block->shared.contains(access.address) && is_private(thread, access.address)) return;
  if (kChecksMemory) memory().access(thread, access);
  if (kChecksRaces) races().access(thread, access);
}

void launch_begins(const Grid& grid, bool dependent) {
  if (kChecksRaces) races().launch_begins(grid, dependent);
}

void block_begins(Block& block) {
  if (kChecksMemory) memory().block_begins();
  if (kChecksRaces) races().block_begins(block);
}

void barrier_arrives(Thread& thread, int barrier) {
  if (kChecksRaces) races().barrier_arrives(thread.index, barrier);
}

void barrier_completes(Block& block, int barrier, const unsigned* waiting) {
  if (kChecksRaces) races().barrier_completes(block, barrier, waiting);
}

void warp_synchronises(Block&, int warp, unsigned mask) {
  if (kChecksRaces) races().warp_synchronises(warp, mask);
}

void fence(Thread& thread, bool device_scope) {
  if (kChecksRaces) races().fence(thread.index, device_scope);
}

void dependence_waits(Thread& thread) {
  if (kChecksRaces) races().dependence_waits(thread.index);
}

void copy_lands(Thread& thread, const AsyncCopy& copy) {
  if (kChecksMemory) memory().copy_lands(thread, copy);
  if (kChecksRaces) races().copy_lands(thread, copy);
}

}  // namespace watch

void note_read(const void* address, size_t bytes, Site at) {
  watch::access(running_thread(), {address, bytes, AccessKind::kRead, place_of(at)});
}

void note_atomic(const void* address, size_t bytes, Site at) {
  watch::access(running_thread(), {address, bytes, AccessKind::kAtomic, place_of(at)});
}

void note_fence(bool device_scope) {
  watch::fence(running_thread(), device_scope);
}

void note_dependence_wait() {
  watch::dependence_waits(running_thread());
}

void end_block(Thread& thread, Place place, const std::string& what) {
  end_block(thread, describe(place), what);
}

void end_block(Thread& thread, Site site, const std::string& what) {
  end_block(thread, describe(site), what);
}

}  // namespace spark::emulator
