// The one place where what a kernel does reaches the checks that the build asked for.
#include "emulator/watch.h"

#include <pthread.h>

#include "emulator/cluster.h"
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
  switch_context(running_thread().context, block.cluster->home);
  __builtin_unreachable();
}

}  // namespace

namespace watch {

void access(Thread& thread, const Access& access) {
  if (access.bytes == 0) return;
  const Block* holder = thread.block->cluster->holder(access.address);
  if (holder == nullptr && is_private(thread, access.address)) return;
  if (holder != nullptr && holder != thread.block && holder->has_exited()) {
    end_block(thread, access.place,
              (writes(access.kind) ? "writes " : "reads ") + holder->shared.describe(access.address) + " of " +
                  block_name(*holder) + ", which has exited");
  }
  if (kChecksMemory) memory().access(thread, access);
  if (kChecksRaces) races().access(thread, access);
}

void launch_begins(const Grid& grid, bool dependent) {
  if (kChecksRaces) races().launch_begins(grid, dependent);
}

void cluster_begins(const Cluster& cluster) {
  if (kChecksMemory) memory().cluster_begins(cluster.blocks.size());
  if (kChecksRaces) races().cluster_begins(cluster);
}

std::string cluster_ends(const Cluster& cluster) {
  return kChecksRaces ? races().cluster_ends(cluster) : std::string();
}

void barrier_arrives(Thread& thread, int barrier) {
  if (kChecksRaces) races().barrier_arrives(thread, barrier);
}

void barrier_completes(Block& block, int barrier, const unsigned* waiting) {
  if (kChecksRaces) races().barrier_completes(block, barrier, waiting);
}

void warp_synchronises(Block& block, int warp, unsigned mask) {
  if (kChecksRaces) races().warp_synchronises(block, warp, mask);
}

void cluster_arrives(Thread& thread, bool releases) {
  if (kChecksRaces) races().cluster_arrives(thread, releases);
}

void cluster_completes(const Cluster& cluster) {
  if (kChecksRaces) races().cluster_completes(cluster.phase);
}

void cluster_waits(Thread& thread) {
  if (kChecksRaces) races().cluster_waits(thread);
}

void fence(Thread& thread, bool device_scope) {
  if (kChecksRaces) races().fence(thread, device_scope);
}

void dependence_waits(Thread& thread) {
  if (kChecksRaces) races().dependence_waits(thread);
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

void end_block(Thread& thread, Place place, const std::string& what) {
  end_block(thread, describe(place), what);
}

void end_block(Thread& thread, Site site, const std::string& what) {
  end_block(thread, describe(site), what);
}

}  // namespace spark::emulator
