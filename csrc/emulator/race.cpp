// Happens-before over every byte, exact: no access is forgotten, so the verdict does not depend on the schedule.
#include "emulator/race.h"

#include <algorithm>

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
  atomics_.clear();
  if (!dependent) shadow_.forget_global();  // what is ahead has ended
}

void RaceCheck::cluster_begins(const Cluster& cluster) {
  members_.resize(cluster.blocks.size());
  for (const auto& block : cluster.blocks) {
    Member& member = members_[block->rank];
    const uint3 at = block->index;
    member.block = at.x + grid_size_.x * (at.y + grid_size_.y * at.z);
    member.progress.start_block(member.block, block->thread_count);
    member.phases.fill({});
    member.visits.clear();
  }
  cluster_phases_.fill({});
}

// A block's shared memory is there until its last thread exits: one of its threads must know of each visit by then.
std::string RaceCheck::cluster_ends(const Cluster& cluster) const {
  for (const auto& holder : cluster.blocks) {
    const Member& visited = members_[holder->rank];
    for (const auto& [who, visit] : visited.visits) {
      const auto& [rank, thread] = who;
      const auto knows = [&, rank = rank, thread = thread, clock = visit.clock](int i) {
        return visited.progress.of(i).knows(members_[rank].block, thread, clock);
      };
      bool any = false;
      for (int i = 0; i < holder->thread_count && !any; ++i) any = knows(i);
      if (any) continue;
      return block_prefix(*cluster.blocks[rank]) + "thread " + std::to_string(thread) + " at " +
             describe(visit.access.place) + ": race: " + verb(visit.access.kind, false) + " " +
             std::to_string(visit.access.bytes) + " bytes at " + holder->shared.describe(visit.access.address) +
             " of " + block_name(*holder) + ", which may have exited; no barrier.cluster keeps it waiting";
    }
  }
  return {};
}

void RaceCheck::barrier_arrives(const Thread& thread, int barrier) {
  Member& own = member(thread);
  own.progress.arrive(thread.index, own.phases[barrier]);
}

void RaceCheck::barrier_completes(const Block& block, int barrier, const unsigned* waiting) {
  Member& own = members_[block.rank];
  Knowledge& phase = own.phases[barrier];
  for (int i = 0; i < block.thread_count; ++i) {
    if (waiting[i / kLanes] >> i % kLanes & 1u) own.progress.leave(i, phase);
  }
  phase = {};
}

void RaceCheck::cluster_arrives(const Thread& thread, bool releases) {
  Knowledge& phase = cluster_phases_[thread.block->cluster->phase % 2];
  Member& own = member(thread);
  phase.others[own.block];  // that it has started is known without a release
  if (releases) own.progress.arrive_across(thread.index, phase);
}

// All have arrived, so all have waited for the phase before, whose place the next one takes.
void RaceCheck::cluster_completes(uint32_t phase) {
  cluster_phases_[(phase + 1) % 2] = {};
}

void RaceCheck::cluster_waits(const Thread& thread) {
  member(thread).progress.leave_across(thread.index, cluster_phases_[thread.cluster_phase % 2]);
}

void RaceCheck::warp_synchronises(const Block& block, int warp, unsigned mask) {
  Progress& progress = members_[block.rank].progress;
  Knowledge together;
  for (unsigned rest = mask; rest != 0; rest &= rest - 1)
    progress.arrive(warp * kLanes + __builtin_ctz(rest), together);
  for (unsigned rest = mask; rest != 0; rest &= rest - 1) progress.leave(warp * kLanes + __builtin_ctz(rest), together);
}

// `holder`: the block whose shared memory it is; null for global memory.
template <typename Use>
void RaceCheck::visit(const Block* holder, const void* address, size_t bytes, bool replaces, Use use) {
  size_t at = holder != nullptr ? holder->shared.offset_of(address) : reinterpret_cast<uintptr_t>(address);
  const size_t end = at + bytes;
  while (at < end) {
    const size_t chunk = at / kChunk, first = at % kChunk, last = std::min(first + (end - at), kChunk);
    Chunk& there = holder != nullptr ? shadow_.shared(holder->rank, chunk) : shadow_.global(chunk);
    there.visit(first, last, replaces, use);
    at += last - first;
  }
}

// A read of what no kernel may write.
bool RaceCheck::is_constant(const Access& access, const Block* holder) const {
  if (writes(access.kind) || holder != nullptr) return false;
  const GlobalBuffer* buffer = global_buffers().find(access.address);
  return buffer != nullptr && !buffer->writable;
}

// What the kernel ahead writes without having run here.
void RaceCheck::check_written_ahead(Thread& thread, const Access& access) const {
  if (member(thread).progress.of(thread.index).waited) return;
  const GlobalBuffer* buffer = global_buffers().find(access.address);
  if (buffer == nullptr || !buffer->written_ahead) return;
  end_block(thread, access.place,
            std::string("race: ") + verb(access.kind, false) + " " + std::to_string(access.bytes) + " bytes at " +
                global_buffers().describe(access.address, access.bytes) +
                ", which the kernel ahead writes; this thread has not passed griddepcontrol.wait");
}

void RaceCheck::access(Thread& thread, const Access& access) {
  const Block* holder = thread.block->cluster->holder(access.address);
  if (dependent_ && holder == nullptr) check_written_ahead(thread, access);
  if (is_constant(access, holder)) return;
  const bool replaces = writes(access.kind) && !is_strong(access.kind);
  visit(holder, access.address, access.bytes, replaces,
        [&](Cell& cell) { visit_cell(thread, access, holder != nullptr, cell); });
  if (is_strong(access.kind)) {
    member(thread).progress.atomic(thread.index, atomics_[access.address], access.kind != AccessKind::kStrongWrite,
                                   writes(access.kind));
  }
  if (holder != nullptr && holder != thread.block) visit_peer(thread, *holder, access);
}

void RaceCheck::visit_peer(Thread& thread, const Block& holder, const Access& access) {
  Member& visited = members_[holder.rank];
  const Progress& own = member(thread).progress;
  if (own.of(thread.index).others.count(visited.block) == 0) {
    end_block(thread, access.place,
              std::string("race: ") + verb(access.kind, false) + " " + std::to_string(access.bytes) + " bytes at " +
                  holder.shared.describe(access.address) + " of " + block_name(holder) +
                  ", which may not have started; no barrier.cluster comes before");
  }
  visited.visits[{thread.block->rank, thread.index}] = {access, own.clock(thread.index)};
}

void RaceCheck::visit_cell(Thread& thread, const Access& access, bool shared, Cell& cell) {
  const Member& self = member(thread);
  const auto check = [&](const PastAccess& past) {
    if (conflict(past.kind, access.kind) && counts(past, shared) && !is_ordered(past, thread)) {
      report(thread, access, past);
    }
  };
  check(cell.write);
  for (const PastAccess& past : cell.since) check(past);
  const bool in_flight = access.kind == AccessKind::kCopyWrite;
  const PastAccess now{launch_,
                       self.block,
                       in_flight ? kNever : self.progress.clock(thread.index),
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
    if (past.block != self.block && others++ == 0) oldest = &past;
    // The later of two ordered reads, or of two accesses of a thread, stands for both.
    const bool own = past.launch == launch_ && past.block == self.block && past.thread == thread.index;
    const bool alike = past.kind == access.kind || (!is_strong(past.kind) && !is_strong(access.kind));
    if (!counts(past, shared) || (alike && (own || is_ordered(past, thread)))) {
      past = now;
      return;
    }
  }
  if (others >= kOtherBlocks) cell.since.erase(cell.since.begin() + (oldest - cell.since.data()));
  cell.since.push_back(now);
}

// Shared memory is new for every block and cluster.
bool RaceCheck::counts(const PastAccess& past, bool shared) const {
  if (past.launch == 0) return false;
  return !shared || (past.launch == launch_ && is_in_cluster(past.block));
}

bool RaceCheck::is_in_cluster(uint32_t block) const {
  return std::any_of(members_.begin(), members_.end(), [block](const Member& each) { return each.block == block; });
}

bool RaceCheck::is_ordered(const PastAccess& past, const Thread& thread) const {
  const Member& self = member(thread);
  const Knowledge& known = self.progress.of(thread.index);
  if (past.launch != launch_) return !dependent_ || known.waited || past.launch + 1 != launch_;
  if (past.block == self.block) return past.clock <= known.own[past.thread];
  return known.knows(past.block, past.thread, past.clock);
}

void RaceCheck::copy_lands(Thread& thread, const AsyncCopy& copy) {
  const Member& self = member(thread);
  visit(thread.block, copy.smem, kChunk, false, [&](Cell& cell) {
    PastAccess& past = cell.write;
    if (!past.in_flight || past.launch != launch_ || past.block != self.block || past.thread != thread.index) return;
    past.in_flight = false;
    past.clock = self.progress.clock(thread.index);
  });
}

std::string RaceCheck::block_at(uint32_t number) const {
  const dim3 g = grid_size_;
  return "block (" + std::to_string(number % g.x) + "," + std::to_string(number / g.x % g.y) + "," +
         std::to_string(number / g.x / g.y) + ")";
}

void RaceCheck::report(Thread& thread, const Access& access, const PastAccess& past) const {
  const Block* holder = thread.block->cluster->holder(access.address);
  const uint32_t own = member(thread).block;
  std::string what = holder != nullptr ? holder->shared.describe(access.address)
                                       : global_buffers().describe(access.address, access.bytes);
  if (holder != nullptr && holder != thread.block) what += " of " + block_name(*holder);
  std::string text = std::string("race: ") + verb(access.kind, false) + " " + std::to_string(access.bytes) +
                     " bytes at " + what + ", which ";
  const bool same_launch = past.launch == launch_;
  if (!same_launch) text += "kernel " + kernel_ahead_ + " ";
  if (!same_launch) {
    text += "block " + std::to_string(past.block) + " ";
  } else if (past.block != own) {
    text += block_at(past.block) + " ";
  }
  text += "thread " + std::to_string(past.thread) + " " + verb(past.kind, true) + " at " + describe(past.place);
  if (!same_launch) {
    text += "; this thread has not passed griddepcontrol.wait";
  } else if (past.in_flight) {
    text += past.thread == thread.index && past.block == own ? " and has not waited for"
                                                             : "; that copy has not been waited for";
  } else if (past.block != own && is_in_cluster(past.block)) {
    text += "; no barrier.cluster orders the two blocks";
  } else if (past.block != own) {
    text += "; no fence and atomic order the two blocks";
  } else if (past.thread / kLanes == thread.index / kLanes) {
    text += "; no __syncwarp or barrier orders the two";
  } else {
    text += "; no barrier orders the two";
  }
  end_block(thread, access.place, text);
}

}  // namespace spark::emulator
