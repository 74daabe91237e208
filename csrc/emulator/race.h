// The race check: two accesses of which one writes, by threads that nothing orders.
#pragma once

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "emulator/cluster.h"
#include "emulator/knowledge.h"
#include "emulator/shadow.h"

namespace spark::emulator {

class RaceCheck {
 public:
  void launch_begins(const Grid& grid, bool dependent);
  void cluster_begins(const Cluster& cluster);
  std::string cluster_ends(const Cluster& cluster) const;
  void access(Thread& thread, const Access& access);
  void copy_lands(Thread& thread, const AsyncCopy& copy);

  void barrier_arrives(const Thread& thread, int barrier);
  void barrier_completes(const Block& block, int barrier, const unsigned* waiting);
  void cluster_arrives(const Thread& thread, bool releases);
  void cluster_completes(uint32_t phase);
  void cluster_waits(const Thread& thread);
  void warp_synchronises(const Block& block, int warp, unsigned mask);
  void fence(const Thread& thread, bool device_scope) { member(thread).progress.fence(thread.index, device_scope); }
  void dependence_waits(const Thread& thread) { member(thread).progress.wait_for_kernels_ahead(thread.index); }

 private:
  // The latest access of a thread to another block's shared memory.
  struct Visit {
    Access access;
    uint32_t clock;
  };
  // A block of the cluster that runs.
  struct Member {
    uint32_t block = 0;  // its number in the grid
    Progress progress;
    std::array<Knowledge, kBarriers> phases;
    std::map<std::pair<int, int>, Visit> visits;  // to its shared memory, by rank and thread
  };

  Member& member(const Thread& thread) { return members_[thread.block->rank]; }
  const Member& member(const Thread& thread) const { return members_[thread.block->rank]; }

  bool is_constant(const Access& access, const Block* holder) const;
  void check_written_ahead(Thread& thread, const Access& access) const;
  void visit_cell(Thread& thread, const Access& access, bool shared, Cell& cell);
  bool is_ordered(const PastAccess& past, const Thread& thread) const;
  bool counts(const PastAccess& past, bool shared) const;
  bool is_in_cluster(uint32_t block) const;
  void visit_peer(Thread& thread, const Block& holder, const Access& access);
  std::string block_at(uint32_t number) const;
  [[noreturn]] void report(Thread& thread, const Access& access, const PastAccess& past) const;
  template <typename Use>
  void visit(const Block* holder, const void* address, size_t bytes, bool replaces, Use use);

  uint32_t launch_ = 0;
  bool dependent_ = false;
  dim3 grid_size_ = {1, 1, 1};
  std::string kernel_, kernel_ahead_;
  std::vector<Member> members_;  // by rank
  std::array<Knowledge, 2>
      cluster_phases_;  // of barrier.cluster: threads may arrive anew while others have yet to wait
  AtomicReleases atomics_;
  Shadow shadow_;
};

}  // namespace spark::emulator
