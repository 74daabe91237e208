// The memory check: every access lies in memory that the kernel was given, and reads find a value there.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/block.h"
#include "emulator/watch.h"

namespace spark::emulator {

class MemoryCheck {
 public:
  void cluster_begins(size_t blocks);
  void access(Thread& thread, const Access& access);
  void copy_lands(Thread& thread, const AsyncCopy& copy);

 private:
  void access_shared(Thread& thread, const Block& holder, const Access& access);
  void access_global(Thread& thread, const Access& access);
  void mark_shared(const Block& holder, const void* address, size_t bytes, bool written);

  // A byte of shared memory each, by the block's rank in its cluster and the offset in the arena.
  std::vector<std::vector<uint8_t>> written_;
};

}  // namespace spark::emulator
