// What an emulated kernel's code sees of the runtime: who the running thread is, and how it waits, fails and launches.
#pragma once

#include <vector_types.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/status.h"
#include "emulator/sanitize.h"

namespace spark::emulator {

// Where in the kernel's source a call stands; a default argument, so that it is the caller's line.
struct Site {
  const char* file;
  int line;
  static constexpr Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { return {file, line}; }
};

struct Block;

// The part of a thread that kernel code reads; the scheduler's part is in block.h.
struct ThreadView {
  uint3 thread_idx;
  uint3 block_idx;
  dim3 block_dim;
  dim3 grid_dim;
  int lane;
  unsigned spins;  // atomics and fences since this thread last gave way
};

// Set while kernel code runs on this host thread, else null. The initial-exec model makes reading it one instruction.
extern __thread ThreadView* current_thread __attribute__((tls_model("initial-exec")));

inline ThreadView* this_thread() {
  return current_thread;
}

struct Grid {
  std::string_view kernel;
  dim3 grid;
  dim3 block;
  size_t dynamic_smem;
  bool dependent = false;  // may start before the kernel ahead of it ends
  dim3 cluster = {1, 1, 1};
};

// Runs every block of the grid and returns when all have ended, or with the first block's error.
Status run_grid(const Grid& grid, void (*call)(const void*), const void* closure);

// Ends the block, and with it the launch, in an error that names kernel, block, thread and line. Unwinds
// the calling thread; the others are left where they wait.
[[noreturn]] void fail(Site at, const char* format, ...) __attribute__((format(printf, 2, 3)));

// What the emulator's own headers do on a kernel's behalf, told to the checks of a sanitized build (watch.h).
void note_read(const void* address, size_t bytes, Site at);
void note_atomic(const void* address, size_t bytes, Site at);
void note_fence(bool device_scope);

// griddepcontrol.wait: what the kernels ahead wrote is the running thread's to read (cluster.cpp).
void wait_for_kernels_ahead(Site at);

// Lets the other threads of the block run; a loop that waits for another thread needs it.
void give_way(Site at);

inline constexpr unsigned kSpinsBeforeGivingWay = 1024;

inline void count_spin(Site at) {
  if (++this_thread()->spins >= kSpinsBeforeGivingWay) give_way(at);
}

// One warp-wide operation: the lanes' slots are collected and the last lane to arrive calls complete once for all.
struct Collective {
  const char* name;
  bool aligned;  // every lane must come from the same line, with all 32 lanes in the mask
  void (*complete)(void* const* slots, unsigned mask, Site at);
};

void run_collective(const Collective& collective, unsigned mask, void* slot, Site at);

// Barrier `id` of the block; threads 0 means all of them. Returns how many of the threads passed a true predicate.
struct BarrierCall {
  const char* name;
  int id;
  int threads;
  bool wait;
  bool predicate;
};

int run_barrier(const BarrierCall& call, Site at);

// The cluster of the running block (cluster.cpp).
unsigned cluster_rank();
uint3 cluster_position();
dim3 cluster_shape();
void cluster_arrive(bool releases, Site at);
void cluster_wait(Site at);
// The address of the same shared variable in the block of this rank.
void* map_shared(const void* address, unsigned rank, Site at);

}  // namespace spark::emulator
