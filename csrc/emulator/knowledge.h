// Who knows of whose progress: vector clocks over the threads of a grid. A thread's own clock ticks when it releases
// (at barriers and fences); what another thread knows of it, it knows as the clock that the release carried.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

namespace spark::emulator {

using Clocks = std::vector<uint32_t>;            // of the threads of one block
using BlockClocks = std::map<uint32_t, Clocks>;  // by block

inline void join(Clocks& into, const Clocks& from) {
  if (into.size() < from.size()) into.resize(from.size(), 0);
  for (size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

inline void join(BlockClocks& into, const BlockClocks& from) {
  for (const auto& [block, clocks] : from) join(into[block], clocks);
}

struct Knowledge {
  Clocks own;           // of the threads of the own block
  BlockClocks others;   // fences with atomics, and cluster barriers, bring these
  bool waited = false;  // griddepcontrol.wait: the kernels ahead have ended

  // Of a thread of another block.
  bool knows(uint32_t block, size_t thread, uint32_t clock) const {
    const auto other = others.find(block);
    return other != others.end() && thread < other->second.size() && clock <= other->second[thread];
  }
};

inline void join(Knowledge& into, const Knowledge& from) {
  join(into.own, from.own);
  join(into.others, from.others);
  into.waited = into.waited || from.waited;
}

// By C++'s rules for fences around relaxed atomics: what a thread had before its fence reaches, through an atomic that
// it then writes and another thread reads, what that thread does after a fence of its own. Across blocks both fences
// must be __threadfence or wider.
struct Scoped {
  BlockClocks block;   // usable within the block
  BlockClocks device;  // usable everywhere
};

// What was released into each address by an atomic.
using AtomicReleases = std::unordered_map<const void*, Scoped>;

struct ThreadProgress {
  Knowledge known;
  Scoped released;  // at its last fence
  Scoped acquired;  // read by atomics, known after the next fence
};

// The threads of one block.
class Progress {
 public:
  void start_block(uint32_t block, int threads);

  const Knowledge& of(int thread) const { return threads_[thread].known; }
  uint32_t clock(int thread) const { return threads_[thread].known.own[thread]; }

  void arrive(int thread, Knowledge& phase);
  void leave(int thread, const Knowledge& phase) { join(threads_[thread].known, phase); }
  // At a barrier of several blocks, whose `phase` has the threads of all of them in `others`.
  void arrive_across(int thread, Knowledge& phase);
  void leave_across(int thread, const Knowledge& phase);
  void fence(int thread, bool device_scope);
  void atomic(int thread, Scoped& there, bool reads, bool writes);
  void wait_for_kernels_ahead(int thread) { threads_[thread].known.waited = true; }

 private:
  uint32_t block_ = 0;
  std::vector<ThreadProgress> threads_;
};

}  // namespace spark::emulator
