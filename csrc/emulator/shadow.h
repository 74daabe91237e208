// For every byte: who wrote it last, and who has read it since. Sixteen bytes that were always accessed together share
// one cell.
#pragma once

#include <array>
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
    const bool whole = begin == 0 && end == kChunk;
    if (whole && bytes_ == nullptr) {
      use(whole_);
      return;
    }
    if (bytes_ == nullptr) {
      bytes_ = std::make_unique<std::array<Cell, kChunk>>();
      bytes_->fill(whole_);
    }
    for (size_t i = begin; i < end; ++i) use((*bytes_)[i]);
    if (!whole || !replaces) return;
    whole_ = std::move((*bytes_)[0]);
    bytes_.reset();
  }

 private:
  Cell whole_;
  std::unique_ptr<std::array<Cell, kChunk>> bytes_;
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
