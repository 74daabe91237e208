// The race check: two accesses of which one writes, by threads that nothing orders.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "emulator/block.h"
#include "emulator/knowledge.h"
#include "emulator/shadow.h"

namespace spark::emulator {

class RaceCheck {
 public:
  void launch_begins(const Grid& grid, bool dependent);
  void block_begins(const Block& block);
  void access(Thread& thread, const Access& access);
  void copy_lands(Thread& thread, const AsyncCopy& copy);

  void barrier_arrives(int thread, int barrier) { progress_.arrive(thread, phases_[barrier]); }
  void barrier_completes(const Block& block, int barrier, const unsigned* waiting);
  void warp_synchronises(int warp, unsigned mask);
  void fence(int thread, bool device_scope) { progress_.fence(thread, device_scope); }
  void dependence_waits(int thread) { progress_.wait_for_kernels_ahead(thread); }

 private:
  bool is_constant(const Thread& thread, const Access& access) const;
  void visit_cell(Thread& thread, const Access& access, bool shared, Cell& cell);
  bool is_ordered(const PastAccess& past, int thread) const;
  bool counts(const PastAccess& past, bool shared) const;
  [[noreturn]] void report(Thread& thread, const Access& access, const PastAccess& past) const;
  template <typename Use>
  void visit(Thread& thread, const void* address, size_t bytes, bool replaces, Use use);

  uint32_t launch_ = 0;
  uint32_t block_ = 0;  // its number in the grid
  bool dependent_ = false;
  dim3 grid_size_ = {1, 1, 1};
  std::string kernel_, kernel_ahead_;
  Progress progress_;
  std::array<Knowledge, kBarriers> phases_;
  Shadow shadow_;
};

}  // namespace spark::emulator
