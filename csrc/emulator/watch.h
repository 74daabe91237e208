// Watching every access of a kernel, in builds for `sparkctl test --sanitize race` and `memory`. Compilers call out
// before each load and store (-fsanitize=thread, without its library); instrumentation.cpp takes these calls, and the
// emulator's own operations (cp.async, ldmatrix, atomics, barriers) say here what they do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "emulator/places.h"
#include "emulator/runtime.h"

namespace spark::emulator {

struct Cluster;
struct Thread;
struct AsyncCopy;

enum class AccessKind : uint8_t { kRead, kWrite, kLdmatrix, kCopyRead, kCopyWrite, kStrongRead, kStrongWrite, kAtomic };

constexpr bool writes(AccessKind kind) {
  return kind == AccessKind::kWrite || kind == AccessKind::kCopyWrite || kind == AccessKind::kStrongWrite ||
         kind == AccessKind::kAtomic;
}
// Volatile and atomic accesses, which do not race with each other.
constexpr bool is_strong(AccessKind kind) {
  return kind == AccessKind::kStrongRead || kind == AccessKind::kStrongWrite || kind == AccessKind::kAtomic;
}

struct Access {
  const void* address;
  size_t bytes;
  AccessKind kind;
  Place place;
};

namespace watch {

// Of one thread. Ends the block, without unwinding, where the access is at fault.
void access(Thread& thread, const Access& access);

void launch_begins(const Grid& grid, bool dependent);
void cluster_begins(const Cluster& cluster);
// What the cluster did wrong that shows only now; empty: nothing.
std::string cluster_ends(const Cluster& cluster);
void barrier_arrives(Thread& thread, int barrier);
// `waiting`: the lanes of each warp that go on now.
void barrier_completes(Block& block, int barrier, const unsigned* waiting);
void warp_synchronises(Block& block, int warp, unsigned mask);
// barrier.cluster: a thread's arrival, the end of the phase under way, and after a thread's wait.
void cluster_arrives(Thread& thread, bool releases);
void cluster_completes(const Cluster& cluster);
void cluster_waits(Thread& thread);
void fence(Thread& thread, bool device_scope);
void dependence_waits(Thread& thread);
// After the copy's own accesses were checked.
void copy_lands(Thread& thread, const AsyncCopy& copy);

}  // namespace watch

// Ends the running thread's block in this error. Frames of the kernel are left where they are.
[[noreturn]] void end_block(Thread& thread, Place place, const std::string& what);
[[noreturn]] void end_block(Thread& thread, Site site, const std::string& what);

}  // namespace spark::emulator
