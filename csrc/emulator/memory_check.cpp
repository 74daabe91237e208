// Bounds and unwritten bytes.
#include "emulator/memory_check.h"

#include <algorithm>

#include "emulator/buffers.h"
#include "emulator/cluster.h"

// The linker's. A shared library, which no kernel under this check is in, has no start.
extern "C" const char __executable_start __attribute__((weak)), _end;

namespace spark::emulator {
namespace {

std::string sentence(const Access& access) {
  const char* verb = access.kind == AccessKind::kLdmatrix    ? "ldmatrix reads "
                     : access.kind == AccessKind::kCopyRead  ? "cp.async reads "
                     : access.kind == AccessKind::kCopyWrite ? "cp.async writes "
                     : access.kind == AccessKind::kAtomic    ? "an atomic updates "
                     : writes(access.kind)                   ? "writes "
                                                             : "reads ";
  return verb + std::to_string(access.bytes) + " bytes ";
}

// The program's own constants and variables.
bool is_static(const void* address) {
  const char* p = static_cast<const char*>(address);
  const char* start = &__executable_start;
  return start != nullptr && p >= start && p < &_end;
}

bool reads(AccessKind kind) {
  return !writes(kind) || kind == AccessKind::kAtomic;
}

}  // namespace

void MemoryCheck::cluster_begins(size_t blocks) {
  if (written_.size() < blocks) written_.resize(blocks);
  for (size_t i = 0; i < blocks; ++i) std::fill(written_[i].begin(), written_[i].end(), uint8_t{0});
}

void MemoryCheck::access(Thread& thread, const Access& access) {
  if (const Block* holder = thread.block->cluster->holder(access.address)) {
    access_shared(thread, *holder, access);
  } else {
    access_global(thread, access);
  }
}

void MemoryCheck::access_shared(Thread& thread, const Block& holder, const Access& access) {
  const SharedArena& arena = holder.shared;
  const std::string whose = &holder == thread.block ? "" : " of " + block_name(holder);
  if (!arena.holds(access.address, access.bytes)) {
    end_block(
        thread, access.place,
        sentence(access) + "outside of shared memory" + whose + ": " + arena.complaint(access.address, access.bytes));
  }
  if (writes(access.kind) && access.kind != AccessKind::kAtomic) {
    // What a copy brings is there when it has landed.
    mark_shared(holder, access.address, access.bytes, access.kind != AccessKind::kCopyWrite);
    return;
  }
  const std::vector<uint8_t>& written = written_[holder.rank];
  const size_t offset = arena.offset_of(access.address);
  for (size_t i = offset; i < offset + access.bytes; ++i) {
    if (i < written.size() && written[i] != 0) continue;
    const char* byte = static_cast<const char*>(access.address) + (i - offset);
    end_block(thread, access.place,
              sentence(access) + "at " + arena.describe(access.address) + "; nothing has written " +
                  arena.describe(byte) + whose);
  }
}

void MemoryCheck::access_global(Thread& thread, const Access& access) {
  GlobalBuffer* buffer = global_buffers().find(access.address);
  if (buffer == nullptr && is_static(access.address)) return;
  if (buffer == nullptr || !buffer->holds(access.address, access.bytes)) {
    end_block(thread, access.place,
              sentence(access) +
                  "outside of the kernel's memory: " + global_buffers().describe(access.address, access.bytes));
  }
  if (!buffer->writable) {
    if (!writes(access.kind)) return;
    end_block(thread, access.place,
              sentence(access) + "at " + global_buffers().describe(access.address, access.bytes) + ", an input");
  }
  uint8_t* written = buffer->written.data() + (static_cast<const char*>(access.address) - buffer->begin);
  if (reads(access.kind)) {
    for (size_t i = 0; i < access.bytes; ++i) {
      if (written[i] != 0) continue;
      const char* byte = static_cast<const char*>(access.address) + i;
      end_block(thread, access.place,
                sentence(access) + "at " + global_buffers().describe(access.address, access.bytes) +
                    "; nothing has written " + global_buffers().describe(byte, 1));
    }
  }
  if (writes(access.kind)) std::fill(written, written + access.bytes, uint8_t{1});
}

void MemoryCheck::copy_lands(Thread& thread, const AsyncCopy& copy) {
  mark_shared(*thread.block, copy.smem, 16, true);
}

void MemoryCheck::mark_shared(const Block& holder, const void* address, size_t bytes, bool written) {
  std::vector<uint8_t>& marks = written_[holder.rank];
  const size_t offset = holder.shared.offset_of(address);
  if (marks.size() < offset + bytes) marks.resize(offset + bytes, 0);
  std::fill_n(marks.begin() + static_cast<std::ptrdiff_t>(offset), bytes, static_cast<uint8_t>(written));
}

}  // namespace spark::emulator
