// Running one block: its fibers, in which order they resume, and how it ends.
#include "emulator/block.h"

#include <cstdarg>
#include <cstdio>
#include <exception>
#include <utility>

#include "emulator/cluster.h"

namespace spark::emulator {

__thread ThreadView* current_thread __attribute__((tls_model("initial-exec"))) = nullptr;

namespace {

int nth_set_bit(unsigned bits, unsigned n) {
  while (n-- > 0) bits &= bits - 1;
  return __builtin_ctz(bits);
}

// The end of a thread: a collective that waits for it can never complete.
void leave(Thread& self) {
  Block& block = *self.block;
  Warp& warp = block.warps[self.warp()];
  for (int i = 0; i < warp.pending_count; ++i) {
    const PendingCollective& pending = warp.pending[i];
    if (pending.mask >> self.lane & 1u) {
      fail(pending.site, "%s: mask 0x%08x names lane %d of warp %d, which exited", pending.collective->name,
           pending.mask, self.lane, self.warp());
    }
  }
  self.state = State::kExited;
  warp.exited |= 1u << self.lane;
  ++block.exited_count;
  if (warp.exited == warp.existing) release_barriers_of(block, self.warp());
  block.cluster->thread_exits(self);
  switch_to_next(self);
}

void thread_main() {
  Thread& self = running_thread();
  Block& block = *self.block;
  try {
    block.call(block.closure);
    leave(self);
  } catch (const BlockFailure& failure) {
    block.error = failure.text;
  } catch (const std::exception& exception) {
    block.error = block_prefix(block) + "thread " + std::to_string(self.index) + ": exception: " + exception.what();
  } catch (...) {
    block.error = block_prefix(block) + "thread " + std::to_string(self.index) + ": exception";
  }
  // The block has failed; the other fibers are left where they wait.
  switch_context(self.context, block.cluster->home);
  __builtin_unreachable();
}

uint3 thread_position(int index, dim3 size) {
  const unsigned i = static_cast<unsigned>(index);
  return {i % size.x, i / size.x % size.y, i / size.x / size.y};
}

void start_thread(Block& block, int index) {
  Thread& thread = block.threads[index];
  thread.thread_idx = thread_position(index, block.grid->block);
  thread.block_idx = block.index;
  thread.block_dim = block.grid->block;
  thread.grid_dim = block.grid->grid;
  thread.lane = index % kLanes;
  thread.spins = 0;
  thread.block = &block;
  thread.index = index;
  thread.state = State::kReady;
  thread.in_cluster_phase = false;
  thread.copies.pending.clear();
  thread.copies.committed = 0;
  thread.copies.issued = 0;
  thread.stack_low = block.stacks.low(index);
  thread.stack_high = block.stacks.high(index);
  prepare_context(thread.context, block.stacks.low(index), block.stacks.high(index), thread_main);
}

void start_warps(Block& block) {
  const int count = (block.thread_count + kLanes - 1) / kLanes;
  for (int w = 0; w < count; ++w) {
    const int lanes = block.thread_count - w * kLanes;
    Warp& warp = block.warps[w];
    warp.existing = lanes >= kLanes ? ~0u : (1u << lanes) - 1;
    warp.exited = 0;
    warp.pending_count = 0;
    block.ready.add(w, warp.existing);
  }
}

// Goes home where no thread is left. Not inlined: the caller is the path that has to be short.
__attribute__((noinline)) Block& choose_block(Thread& self) {
  Cluster& cluster = *self.block->cluster;
  Block* block = cluster.next_block();
  if (block != nullptr) return *block;
  if (cluster.live == 0) switch_context(self.context, cluster.home);
  cluster.wake_those_that_gave_way();
  return *cluster.next_block();
}

}  // namespace

int pick_bit(unsigned bits, int schedule, uint64_t& random) {
  if (schedule == SPARK_EMULATOR_ASCENDING) return __builtin_ctz(bits);
  if (schedule == SPARK_EMULATOR_DESCENDING) return 31 - __builtin_clz(bits);
  return nth_set_bit(bits, static_cast<unsigned>(next_random(random) >> 33) % __builtin_popcount(bits));
}

void ReadySet::clear() {
  warps_ = 0;
  lanes_.fill(0);
}

void ReadySet::add(int warp, unsigned lanes) {
  lanes_[warp] |= lanes;
  warps_ |= 1u << warp;
}

int ReadySet::take(int schedule, uint64_t& random) {
  const int warp = pick_bit(warps_, schedule, random);
  const int lane = pick_bit(lanes_[warp], schedule, random);
  lanes_[warp] &= ~(1u << lane);
  if (lanes_[warp] == 0) warps_ &= ~(1u << warp);
  return warp * kLanes + lane;
}

void ReadySet::swap(ReadySet& other) {
  std::swap(*this, other);
}

uint64_t mix_bits(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return (x ^ (x >> 31)) | 1u;
}

bool Block::reserve(int count) {
  if (!stacks.reserve(count) || !shared.reserve()) {
    error = "no memory for the stacks of " + std::to_string(count) + " threads";
    return false;
  }
  if (count > thread_capacity) {
    threads = std::make_unique<Thread[]>(count);
    thread_capacity = count;
  }
  return true;
}

void Block::start(uint3 block_index) {
  index = block_index;
  exited_count = 0;
  exited_warps_threads = 0;
  error.clear();
  random = mix_bits(settings.seed ^ mix_bits(index.x + (static_cast<uint64_t>(index.y) << 32) + index.z * 0x10001ull));
  shared.reset(grid->dynamic_smem);
  barriers.fill(Barrier{});
  ready.clear();
  gave_way.clear();
  start_warps(*this);
  for (int i = 0; i < thread_count; ++i) start_thread(*this, i);
}

void switch_to_next(Thread& self) {
  Block* block = self.block;
  if (!block->alone || block->ready.empty()) block = &choose_block(self);
  Thread& next = block->threads[block->ready.take(block->settings.schedule, block->random)];
  next.state = State::kReady;
  next.spins = 0;
  if (&next == &self) return;
  current_thread = &next;
  switch_context(self.context, next.context);
}

void give_way(Site at) {
  Thread& self = running_thread();
  self.wait_site = at;
  self.block->gave_way.add(self.warp(), 1u << self.lane);
  switch_to_next(self);
}

void fail(Site at, const char* format, ...) {
  Thread& self = running_thread();
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  const std::string where = "thread " + std::to_string(self.index) + " at " + describe(at) + ": ";
  throw BlockFailure{block_prefix(*self.block) + where + text};
}

}  // namespace spark::emulator
