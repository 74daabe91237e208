// The state of one running block: its threads, warps, barriers, shared memory and copies under way.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "emulator/fiber.h"
#include "emulator/runtime.h"
#include "emulator/settings.h"
#include "emulator/shared_arena.h"

namespace spark::emulator {

constexpr int kLanes = 32;
constexpr int kMaxWarps = 32;
constexpr int kMaxThreads = kLanes * kMaxWarps;
constexpr int kBarriers = 16;

struct AsyncCopy {
  void* smem;
  const void* gmem;  // null: zeros
  uint32_t group;
  bool landed;
};

// A cp.async queue by PTX's rules: copies belong to the group that the next commit closes.
struct AsyncQueue {
  std::vector<AsyncCopy> pending;
  uint32_t committed = 0;
  uint32_t issued = 0;
};

enum class State : uint8_t { kReady, kInCollective, kAtBarrier, kAtClusterBarrier, kExited };

struct Thread : ThreadView {
  Context context;
  const char* stack_low;
  const char* stack_high;
  Block* block;
  int index;
  State state;
  const char* waits_in;  // name of the operation, for messages
  unsigned wait_mask;    // of a collective
  int barrier;
  int barrier_result;
  bool in_cluster_phase;   // has arrived at barrier.cluster and not waited
  uint32_t cluster_phase;  // the one it arrived in
  Site wait_site;
  AsyncQueue copies;

  int warp() const { return index / kLanes; }
};

// Lanes gathered for one warp-wide operation. Disjoint masks may be pending side by side.
struct PendingCollective {
  const Collective* collective;
  unsigned mask;
  unsigned arrived;
  Site site;
  void* slots[kLanes];
};

struct Warp {
  unsigned existing = 0;  // lanes that the block's size gives it
  unsigned exited = 0;
  std::array<PendingCollective, kLanes> pending;
  int pending_count = 0;
};

struct Barrier {
  int expected = 0;  // of the phase under way
  bool all = false;  // without a count: all threads of the block but those of warps that have exited
  int arrived = 0;
  int predicates = 0;
  std::array<unsigned, kMaxWarps> waiting{};
  std::array<Site, kMaxWarps> site{};
};

// Sets of threads, a word a warp, with the order in which they are taken.
class ReadySet {
 public:
  void clear();
  bool empty() const { return warps_ == 0; }
  void add(int warp, unsigned lanes);
  int take(int schedule, uint64_t& random);  // the thread's index; not for an empty set
  void swap(ReadySet& other);

 private:
  unsigned warps_ = 0;
  std::array<unsigned, kMaxWarps> lanes_{};
};

struct Cluster;

struct Block {
  Cluster* cluster;
  int rank;    // in the cluster
  bool alone;  // in it
  const Grid* grid;
  void (*call)(const void*);
  const void* closure;
  Settings settings;
  uint3 index;
  int thread_count;
  int exited_count;
  int exited_warps_threads;  // of warps that have exited as a whole
  uint64_t random;

  std::unique_ptr<Thread[]> threads;
  int thread_capacity = 0;
  Stacks stacks;
  std::array<Warp, kMaxWarps> warps;
  std::array<Barrier, kBarriers> barriers;
  ReadySet ready;
  ReadySet gave_way;
  SharedArena shared;
  std::string error;  // empty while all is well

  // False, with `error` set, when memory for its stacks cannot be had.
  bool reserve(int thread_count);
  // Makes every thread ready to run from its start.
  void start(uint3 block_index);
  bool has_exited() const { return exited_count == thread_count; }
};

inline Thread& running_thread() {
  return *static_cast<Thread*>(current_thread);
}

// Switches to the next ready thread of the cluster; the caller has put itself into the ready set or noted what it waits
// for.
void switch_to_next(Thread& self);

// Thrown through a failing thread's frames, caught where its fiber began.
struct BlockFailure {
  std::string text;
};

// collectives.cpp: a whole warp has exited; barriers that only waited for it open.
void release_barriers_of(Block& block, int warp);

// report.cpp
std::string describe_deadlock(const Cluster& cluster);
std::string describe_lanes(unsigned mask);
std::string describe(Site site);
std::string block_prefix(const Block& block);
std::string block_name(const Block& block);  // "block (1,0,0)"

// Next value of a xorshift sequence whose state is never 0.
inline uint64_t next_random(uint64_t& state) {
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}

uint64_t mix_bits(uint64_t x);  // a well-spread, never zero seed

int pick_bit(unsigned bits, int schedule, uint64_t& random);  // the next of the set ones

}  // namespace spark::emulator
