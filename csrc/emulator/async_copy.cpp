// Shared-memory checks and the cp.async queues.
#include "emulator/async_copy.h"

#include <algorithm>
#include <cstring>

#include "emulator/block.h"
#include "emulator/shared_memory.h"
#include "emulator/watch.h"

namespace spark::emulator {
namespace {

constexpr size_t kBytes = 16;
constexpr unsigned char kPoison = 0xff;

void fill(const AsyncCopy& copy) {
  if (copy.gmem == nullptr) {
    std::memset(copy.smem, 0, kBytes);
  } else {
    std::memcpy(copy.smem, copy.gmem, kBytes);
  }
}

// The thread has waited for it: from now on its bytes may be used.
void land(Thread& thread, const AsyncCopy& copy) {
  if (!copy.landed) fill(copy);
  if constexpr (kWatches) watch::copy_lands(thread, copy);
}

void watch_copy(Thread& thread, const AsyncCopy& copy, Site at) {
  const Place place = place_of(at);
  if (copy.gmem != nullptr) watch::access(thread, {copy.gmem, kBytes, AccessKind::kCopyRead, place});
  watch::access(thread, {copy.smem, kBytes, AccessKind::kCopyWrite, place});
}

// A coin that depends on the copy and the seed, not on the order in which threads run.
bool lands_early(const Thread& thread) {
  const Settings& settings = thread.block->settings;
  if (settings.async_mode == SPARK_EMULATOR_LATE) return false;
  if (settings.async_mode == SPARK_EMULATOR_EARLY) return true;
  const uint3 b = thread.block_idx;
  uint64_t hash = mix_bits(settings.seed ^ mix_bits(b.x ^ static_cast<uint64_t>(b.y) << 32 ^ b.z * 0x9e3779b9ull));
  hash = mix_bits(hash ^ (static_cast<uint64_t>(thread.index) << 32 | thread.copies.issued));
  return (hash >> 17 & 1u) != 0;
}

// Groups are closed in order, so the queue is sorted by group.
void land_groups_before(Thread& thread, uint32_t group) {
  AsyncQueue& queue = thread.copies;
  auto first_kept = queue.pending.begin();
  for (; first_kept != queue.pending.end() && first_kept->group < group; ++first_kept) {
    land(thread, *first_kept);
  }
  queue.pending.erase(queue.pending.begin(), first_kept);
}

}  // namespace

void* static_shared(const void* key, size_t bytes, size_t alignment, const char* name, Site at) {
  Block& block = *running_thread().block;
  std::string complaint;
  void* storage = block.shared.static_array(key, bytes, alignment, name, block.settings.static_shared_limit,
                                            block.settings.shared_limit, complaint);
  if (storage == nullptr) fail(at, "%s", complaint.c_str());
  return storage;
}

void* dynamic_shared(const char* name) {
  SharedArena& arena = running_thread().block->shared;
  arena.name_dynamic(name);
  return arena.dynamic();
}

size_t shared_offset(const void* address) {
  return running_thread().block->shared.offset_of(address);
}

bool is_shared(const void* address, size_t bytes, size_t alignment) {
  return reinterpret_cast<uintptr_t>(address) % alignment == 0 && running_thread().block->shared.holds(address, bytes);
}

void fail_shared(const void* address, size_t bytes, size_t alignment, const char* whose, Site at) {
  const size_t misalignment = reinterpret_cast<uintptr_t>(address) % alignment;
  if (misalignment != 0) {
    fail(at, "%s shared address is %zu bytes past a %zu-byte boundary", whose, misalignment, alignment);
  }
  fail(at, "%s shared address: %s", whose, running_thread().block->shared.complaint(address, bytes).c_str());
}

void async_copy_16(void* smem, const void* gmem, bool valid, Site at) {
  if (!is_shared(smem, kBytes, kBytes)) fail_shared(smem, kBytes, kBytes, "cp.async:", at);
  const size_t misalignment = reinterpret_cast<uintptr_t>(gmem) % kBytes;
  if (misalignment != 0) fail(at, "cp.async: global address is %zu bytes past a 16-byte boundary", misalignment);
  if (valid && gmem == nullptr) fail(at, "cp.async: global address is null");
  Thread& thread = running_thread();
  const AsyncCopy copy{smem, valid ? gmem : nullptr, thread.copies.committed, lands_early(thread)};
  if constexpr (kWatches) watch_copy(thread, copy, at);
  if (copy.landed) {
    fill(copy);
  } else {
    std::memset(smem, kPoison, kBytes);
  }
  if (kWatches || !copy.landed) thread.copies.pending.push_back(copy);
  ++thread.copies.issued;
}

void async_commit_group() {
  ++running_thread().copies.committed;
}

void async_wait_group(unsigned pending) {
  Thread& thread = running_thread();
  const uint32_t committed = thread.copies.committed;
  if (committed > pending) land_groups_before(thread, committed - pending);
}

void async_wait_all() {
  Thread& thread = running_thread();
  land_groups_before(thread, thread.copies.committed + 1);
}

}  // namespace spark::emulator
