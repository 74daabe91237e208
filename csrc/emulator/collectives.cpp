// Warp-wide operations by mask and the block's barriers.
#include <cstring>

#include "emulator/block.h"
#include "emulator/warp_functions.h"
#include "emulator/watch.h"

namespace spark::emulator {
namespace {

PendingCollective& find_pending(Warp& warp, unsigned mask) {
  for (int i = 0; i < warp.pending_count; ++i) {
    if (warp.pending[i].mask == mask) return warp.pending[i];
  }
  PendingCollective& added = warp.pending[warp.pending_count++];
  added.mask = mask;
  added.arrived = 0;
  return added;
}

void remove_pending(Warp& warp, PendingCollective& done) {
  PendingCollective& last = warp.pending[--warp.pending_count];
  if (&done != &last) done = last;
}

bool same_site(Site a, Site b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

void check_mask(const Thread& self, const Warp& warp, const Collective& collective, unsigned mask, Site at) {
  if ((mask >> self.lane & 1u) == 0) {
    fail(at, "%s: mask 0x%08x does not name the calling lane %d", collective.name, mask, self.lane);
  }
  if (mask & ~warp.existing) {
    fail(at, "%s: mask 0x%08x names lanes %s of warp %d, which the block does not have", collective.name, mask,
         describe_lanes(mask & ~warp.existing).c_str(), self.warp());
  }
  if (mask & warp.exited) {
    fail(at, "%s: mask 0x%08x names lanes %s of warp %d, which exited", collective.name, mask,
         describe_lanes(mask & warp.exited).c_str(), self.warp());
  }
}

void check_joins(const PendingCollective& pending, const Collective& collective, Site at) {
  if (pending.collective != &collective) {
    fail(at, "lanes of one collective run different operations: %s here, %s in lanes %s at %s", collective.name,
         pending.collective->name, describe_lanes(pending.arrived).c_str(), describe(pending.site).c_str());
  }
  if (collective.aligned && !same_site(pending.site, at)) {
    fail(at, "divergent %s: lanes %s are in another one at %s", collective.name,
         describe_lanes(pending.arrived).c_str(), describe(pending.site).c_str());
  }
}

void check_barrier_joins(const Thread& self, const Barrier& barrier, const BarrierCall& call, int expected, Site at) {
  if (barrier.expected != expected) {
    fail(at, "barrier %d: %d threads here, %d elsewhere", call.id, expected, barrier.expected);
  }
  const int warp = self.warp();
  if (barrier.waiting[warp] != 0 && !same_site(barrier.site[warp], at)) {
    fail(at, "divergent %s: lanes %s of warp %d wait at %s", call.name, describe_lanes(barrier.waiting[warp]).c_str(),
         warp, describe(barrier.site[warp]).c_str());
  }
}

void release(Block& block, int id) {
  Barrier& barrier = block.barriers[id];
  if constexpr (kWatches) watch::barrier_completes(block, id, barrier.waiting.data());
  const int result = barrier.predicates;
  for (int w = 0; w * kLanes < block.thread_count; ++w) {
    const unsigned lanes = barrier.waiting[w];
    if (lanes == 0) continue;
    block.ready.add(w, lanes);
    for (unsigned rest = lanes; rest != 0; rest &= rest - 1) {
      block.threads[w * kLanes + __builtin_ctz(rest)].barrier_result = result;
    }
    barrier.waiting[w] = 0;
  }
  barrier.arrived = 0;
  barrier.predicates = 0;
}

}  // namespace

void run_collective(const Collective& collective, unsigned mask, void* slot, Site at) {
  Thread& self = running_thread();
  Block& block = *self.block;
  Warp& warp = block.warps[self.warp()];
  check_mask(self, warp, collective, mask, at);
  if (collective.aligned && mask != ~0u) fail(at, "%s: needs all 32 lanes", collective.name);
  PendingCollective& pending = find_pending(warp, mask);
  if (pending.arrived == 0) {
    pending.collective = &collective;
    pending.site = at;
  } else {
    check_joins(pending, collective, at);
  }
  pending.slots[self.lane] = slot;
  pending.arrived |= 1u << self.lane;
  self.state = State::kInCollective;
  self.waits_in = collective.name;
  self.wait_mask = mask;
  self.wait_site = at;
  if (pending.arrived == mask) {
    collective.complete(pending.slots, mask, at);
    // Of the warp-wide operations only this one orders memory.
    if constexpr (kWatches) {
      if (&collective == &kSyncWarp) watch::warp_synchronises(block, self.warp(), mask);
    }
    remove_pending(warp, pending);
    block.ready.add(self.warp(), mask);
  }
  switch_to_next(self);
}

// PTX: exiting threads that alone hold up a barrier for all threads release it. The instruction is an aligned one, so
// lanes that exit while others of their warp wait stay a fault.
void release_barriers_of(Block& block, int warp) {
  const int lanes = __builtin_popcount(block.warps[warp].existing);
  block.exited_warps_threads += lanes;
  for (int id = 0; id < kBarriers; ++id) {
    Barrier& barrier = block.barriers[id];
    if (barrier.arrived == 0 || !barrier.all) continue;
    barrier.expected -= lanes;
    if (barrier.arrived == barrier.expected) release(block, id);
  }
}

int run_barrier(const BarrierCall& call, Site at) {
  Thread& self = running_thread();
  Block& block = *self.block;
  if (call.id < 0 || call.id >= kBarriers) fail(at, "barrier %d: ids are 0 to 15", call.id);
  const bool all = call.threads == 0;
  const int expected = all ? block.thread_count - block.exited_warps_threads : call.threads;
  if (call.threads % kLanes != 0) fail(at, "barrier %d: %d threads is no multiple of 32", call.id, call.threads);
  if (expected > block.thread_count) {
    fail(at, "barrier %d: %d threads, the block has %d", call.id, expected, block.thread_count);
  }
  Barrier& barrier = block.barriers[call.id];
  const int warp = self.warp();
  if (barrier.arrived == 0) {
    barrier.expected = expected;
    barrier.all = all;
  } else {
    check_barrier_joins(self, barrier, call, expected, at);
  }
  if constexpr (kWatches) watch::barrier_arrives(self, call.id);
  ++barrier.arrived;
  barrier.predicates += call.predicate ? 1 : 0;
  if (call.wait) {
    if (barrier.waiting[warp] == 0) barrier.site[warp] = at;
    barrier.waiting[warp] |= 1u << self.lane;
    self.state = State::kAtBarrier;
    self.waits_in = call.name;
    self.barrier = call.id;
    self.wait_site = at;
  }
  if (barrier.arrived == barrier.expected) release(block, call.id);
  if (!call.wait) return 0;
  switch_to_next(self);
  return self.barrier_result;
}

}  // namespace spark::emulator
