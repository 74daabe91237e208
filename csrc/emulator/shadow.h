// For every byte: who wrote it last, and who has read it since. Bytes that were always accessed together share a cell,
// up to sixteen of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "emulator/watch.h"

namespace spark::emulator {

// One past access. In flight: a cp.async that its thread has not waited for, ordered before nothing.
struct PastAccess {
  uint32_t launch = 0;  // 0: none
  uint32_t block;
  uint32_t clock;
  Place place;
  uint16_t thread;
  AccessKind kind;
  bool in_flight;
};

struct Cell {
  PastAccess write;
  std::vector<PastAccess> since;  // reads, and atomics, which exclude none of their kind
};

inline constexpr size_t kChunk = 16;

class Chunk {
 public:
  // Calls use(cell) for the cells of [begin, end) in the chunk. `replaces`: afterwards all of them are alike.
  template <typename Use>
  void visit(size_t begin, size_t end, bool replaces, Use use) {
    const size_t both = begin | end;
    narrow(both & (~both + 1));
    for (size_t i = begin; i < end; i += width_) use(parts_ == nullptr ? whole_ : parts_[i / width_]);
    if (!replaces || parts_ == nullptr || end - begin != kChunk) return;
    whole_ = std::move(parts_[0]);
    parts_.reset();
    width_ = kChunk;
  }

 private:
  // Cells of no more than `width` bytes, a power of two; each takes over what held for the wider one.
  void narrow(size_t width) {
    if (width >= width_) return;
    auto parts = std::make_unique<Cell[]>(kChunk / width);
    for (size_t i = 0; i < kChunk; i += width) {
      parts[i / width] = parts_ == nullptr ? whole_ : parts_[i / width_];
    }
    parts_ = std::move(parts);
    width_ = width;
  }

  Cell whole_;
  std::unique_ptr<Cell[]> parts_;
  size_t width_ = kChunk;
};

class Shadow {
 public:
  // Of the block of this rank in its cluster.
  Chunk& shared(size_t rank, size_t chunk) {
    if (shared_.size() <= rank) shared_.resize(rank + 1);
    std::vector<Chunk>& chunks = shared_[rank];
    if (chunks.size() <= chunk) chunks.resize(chunk + 1024);
    return chunks[chunk];
  }
  Chunk& global(uintptr_t chunk) { return global_[chunk]; }
  void forget_global() { global_.clear(); }

 private:
  std::vector<std::vector<Chunk>> shared_;
  std::unordered_map<uintptr_t, Chunk> global_;
};

}  // namespace spark::emulator
