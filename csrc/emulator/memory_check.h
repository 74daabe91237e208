// The memory check: every access lies in memory that the kernel was given, and reads find a value there.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/block.h"
#include "emulator/watch.h"

namespace spark::emulator {

class MemoryCheck {
 public:
  void block_begins() { std::fill(written_.begin(), written_.end(), uint8_t{0}); }
  void access(Thread& thread, const Access& access);
  void copy_lands(Thread& thread, const AsyncCopy& copy);

 private:
  void access_shared(Thread& thread, const Access& access);
  void access_global(Thread& thread, const Access& access);
  void mark_shared(const SharedArena& arena, const void* address, size_t bytes, bool written);

  std::vector<uint8_t> written_;  // a byte of shared memory each, by its offset in the arena
};

}  // namespace spark::emulator
