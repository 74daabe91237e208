// Happens-before over every byte, exact: no access is forgotten, so the verdict does not depend on the schedule.
#include "emulator/race.h"

#include "emulator/buffers.h"

namespace spark::emulator {
namespace {

constexpr uint32_t kNever = ~0u;  // a clock that nobody knows of
// Reads of one byte by other blocks that are kept, the latest: a later writer races with one as with all of them.
constexpr size_t kOtherBlocks = 64;

const char* verb(AccessKind kind, bool past) {
  switch (kind) {
    case AccessKind::kRead:
      return past ? "read" : "reads";
    case AccessKind::kWrite:
      return past ? "wrote" : "writes";
    case AccessKind::kLdmatrix:
      return past ? "read by ldmatrix" : "reads by ldmatrix";
    case AccessKind::kCopyRead:
      return past ? "read by cp.async" : "reads by cp.async";
    case AccessKind::kCopyWrite:
      return past ? "wrote by cp.async" : "writes by cp.async";
    case AccessKind::kStrongRead:
      return past ? "read as volatile" : "reads as volatile";
    case AccessKind::kStrongWrite:
      return past ? "wrote as volatile" : "writes as volatile";
    case AccessKind::kAtomic:
      return past ? "updated by an atomic" : "updates by an atomic";
  }
  return "";
}

bool conflict(AccessKind a, AccessKind b) {
  return (writes(a) || writes(b)) && !(is_strong(a) && is_strong(b));
}

}  // namespace

void RaceCheck::launch_begins(const Grid& grid, bool dependent) {
  ++launch_;
  dependent_ = dependent;
  grid_size_ = grid.grid;
  kernel_ahead_ = kernel_;
  kernel_ = std::string(grid.kernel);
  progress_.start_launch();
  if (!dependent) shadow_.forget_global();  // what is ahead has ended
}

void RaceCheck::block_begins(const Block& block) {
  block_ = block.index.x + grid_size_.x * (block.index.y + grid_size_.y * block.index.z);
  progress_.start_block(block_, block.thread_count);
  phases_.fill({});
}

void RaceCheck::barrier_completes(const Block& block, int barrier, const unsigned* waiting) {
  Knowledge& phase = phases_[barrier];
  for (int i = 0; i < block.thread_count; ++i) {
    if (waiting[i / kLanes] >> i % kLanes & 1u) progress_.leave(i, phase);
  }
  phase = {};
}

void RaceCheck::warp_synchronises(int warp, unsigned mask) {
  Knowledge together;
  for (unsigned rest = mask; rest != 0; rest &= rest - 1)
    progress_.arrive(warp * kLanes + __builtin_ctz(rest), together);
  for (unsigned rest = mask; rest != 0; rest &= rest - 1)
    progress_.leave(warp * kLanes + __builtin_ctz(rest), together);
}

template <typename Use>
void RaceCheck::visit(Thread& thread, const void* address, size_t bytes, bool replaces, Use use) {
  const SharedArena& arena = thread.block->shared;
  const bool shared = arena.contains(address);
  size_t at = shared ? arena.offset_of(address) : reinterpret_cast<uintptr_t>(address);
  const size_t end = at + bytes;
  while (at < end) {
    const size_t chunk = at / kChunk, first = at % kChunk, last = std::min(first + (end - at), kChunk);
    Chunk& there = shared ? shadow_.shared(chunk) : shadow_.global(chunk);
    there.visit(first, last, replaces, [&](Cell& cell) { use(cell, shared); });
    at += last - first;
  }
}

// A read of what no kernel may write.
bool RaceCheck::is_constant(const Thread& thread, const Access& access) const {
  if (writes(access.kind) || thread.block->shared.contains(access.address)) return false;
  const GlobalBuffer* buffer = global_buffers().find(access.address);
  return buffer != nullptr && !buffer->writable;
}

void RaceCheck::access(Thread& thread, const Access& access) {
  if (is_constant(thread, access)) return;
  const bool replaces = writes(access.kind) && !is_strong(access.kind);
  visit(thread, access.address, access.bytes, replaces,
        [&](Cell& cell, bool shared) { visit_cell(thread, access, shared, cell); });
  if (is_strong(access.kind)) {
    progress_.atomic(thread.index, access.address, access.kind != AccessKind::kStrongWrite, writes(access.kind));
  }
}

void RaceCheck::visit_cell(Thread& thread, const Access& access, bool shared, Cell& cell) {
  const auto check = [&](const PastAccess& past) {
    if (counts(past, shared) && conflict(past.kind, access.kind) && !is_ordered(past, thread.index)) {
      report(thread, access, past);
    }
  };
  check(cell.write);
  for (const PastAccess& past : cell.since) check(past);
  const bool in_flight = access.kind == AccessKind::kCopyWrite;
  const PastAccess now{launch_,
                       block_,
                       in_flight ? kNever : progress_.clock(thread.index),
                       access.place,
                       static_cast<uint16_t>(thread.index),
                       access.kind,
                       in_flight};
  if (writes(access.kind) && !is_strong(access.kind)) {
    cell.write = now;
    cell.since.clear();
    return;
  }
  size_t others = 0;
  PastAccess* oldest = nullptr;  // of them
  for (PastAccess& past : cell.since) {
    if (past.block != block_ && others++ == 0) oldest = &past;
    // The later of two ordered reads, or of two accesses of a thread, stands for both.
    const bool own = past.launch == launch_ && past.block == block_ && past.thread == thread.index;
    const bool alike = past.kind == access.kind || (!is_strong(past.kind) && !is_strong(access.kind));
    if (!counts(past, shared) || (alike && (own || is_ordered(past, thread.index)))) {
      past = now;
      return;
    }
  }
  if (others >= kOtherBlocks) cell.since.erase(cell.since.begin() + (oldest - cell.since.data()));
  cell.since.push_back(now);
}

// Shared memory is new for every block.
bool RaceCheck::counts(const PastAccess& past, bool shared) const {
  if (past.launch == 0) return false;
  return !shared || (past.launch == launch_ && past.block == block_);
}

bool RaceCheck::is_ordered(const PastAccess& past, int thread) const {
  const Knowledge& known = progress_.of(thread);
  if (past.launch != launch_) return !dependent_ || known.waited || past.launch + 1 != launch_;
  if (past.block == block_) return past.clock <= known.own[past.thread];
  const auto other = known.others.find(past.block);
  return other != known.others.end() && past.thread < other->second.size() && past.clock <= other->second[past.thread];
}

void RaceCheck::copy_lands(Thread& thread, const AsyncCopy& copy) {
  visit(thread, copy.smem, kChunk, false, [&](Cell& cell, bool) {
    PastAccess& past = cell.write;
    if (!past.in_flight || past.launch != launch_ || past.block != block_ || past.thread != thread.index) return;
    past.in_flight = false;
    past.clock = progress_.clock(thread.index);
  });
}

void RaceCheck::report(Thread& thread, const Access& access, const PastAccess& past) const {
  const SharedArena& arena = thread.block->shared;
  const std::string what = arena.contains(access.address) ? arena.describe(access.address)
                                                          : global_buffers().describe(access.address, access.bytes);
  std::string text = std::string("race: ") + verb(access.kind, false) + " " + std::to_string(access.bytes) +
                     " bytes at " + what + ", which ";
  const bool same_launch = past.launch == launch_;
  if (!same_launch) text += "kernel " + kernel_ahead_ + " ";
  if (!same_launch || past.block != block_) {
    const dim3 g = grid_size_;
    text += "block ";
    text += same_launch ? "(" + std::to_string(past.block % g.x) + "," + std::to_string(past.block / g.x % g.y) + "," +
                              std::to_string(past.block / g.x / g.y) + ")"
                        : std::to_string(past.block);
    text += " ";
  }
  text += "thread " + std::to_string(past.thread) + " " + verb(past.kind, true) + " at " + describe(past.place);
  if (!same_launch) {
    text += "; this thread has not passed griddepcontrol.wait";
  } else if (past.in_flight) {
    text += past.thread == thread.index && past.block == block_ ? " and has not waited for"
                                                                : "; that copy has not been waited for";
  } else if (past.block != block_) {
    text += "; no fence and atomic order the two blocks";
  } else if (past.thread / kLanes == thread.index / kLanes) {
    text += "; no __syncwarp or barrier orders the two";
  } else {
    text += "; no barrier orders the two";
  }
  end_block(thread, access.place, text);
}

}  // namespace spark::emulator
