// Running a cluster, its barrier, and the shared memory that its blocks show each other.
#include "emulator/cluster.h"

#include <cstring>

#include "emulator/dependence.h"
#include "emulator/watch.h"

namespace spark::emulator {
namespace {

constexpr int kMaxIdleRounds = 1 << 20;  // giving way with nobody else to run: seconds

// x first, as in %cluster_ctarank.
uint3 position_of(int rank, dim3 shape) {
  const unsigned i = static_cast<unsigned>(rank);
  return {i % shape.x, i / shape.x % shape.y, i / shape.x / shape.y};
}

void complete_phase(Cluster& cluster) {
  if constexpr (kWatches) watch::cluster_completes(cluster);
  ++cluster.phase;
  cluster.arrived = 0;
  for (const auto& block : cluster.blocks) {
    for (int i = 0; i < block->thread_count; ++i) {
      if (block->threads[i].state == State::kAtClusterBarrier) block->ready.add(i / kLanes, 1u << i % kLanes);
    }
  }
}

}  // namespace

void Cluster::run(uint3 first) {
  error.clear();
  idle_rounds = 0;
  live = 0;
  arrived = 0;
  phase = 0;
  for (const auto& block : blocks) {
    const uint3 at = position_of(block->rank, block->grid->cluster);
    block->start({first.x + at.x, first.y + at.y, first.z + at.z});
    live += block->thread_count;
  }
  random = mix_bits(blocks[0]->random);
  if (hidden != nullptr) hidden->hide();
  if constexpr (kWatches) watch::cluster_begins(*this);

  Block& block = *next_block();
  Thread& thread = block.threads[block.ready.take(block.settings.schedule, block.random)];
  current_thread = &thread;
  switch_context(home, thread.context);
  current_thread = nullptr;

  for (const auto& each : blocks) {
    if (error.empty()) error = each->error;
  }
  for (const auto& each : blocks) {
    if (error.empty()) check_shared_memory(*each);
  }
  if constexpr (kWatches) {
    if (error.empty()) error = watch::cluster_ends(*this);
  }
}

Block* Cluster::next_block() {
  unsigned ready = 0;
  for (size_t i = 0; i < blocks.size(); ++i) ready |= blocks[i]->ready.empty() ? 0u : 1u << i;
  return ready == 0 ? nullptr : blocks[pick_bit(ready, blocks[0]->settings.schedule, random)].get();
}

void Cluster::wake_those_that_gave_way() {
  bool any = false;
  for (const auto& block : blocks) {
    if (block->gave_way.empty()) continue;
    block->ready.swap(block->gave_way);
    any = true;
  }
  if (!any) throw BlockFailure{describe_deadlock(*this)};
  if (++idle_rounds > kMaxIdleRounds) {
    throw BlockFailure{block_prefix(*blocks[0]) + "threads spin for ever on something no other thread of the " +
                       (is_alone() ? "block" : "cluster") + " does"};
  }
}

// PTX: barrier.cluster waits for the threads that have not exited.
void Cluster::thread_exits(Thread& thread) {
  --live;
  if (thread.in_cluster_phase && thread.cluster_phase == phase) --arrived;
  if (arrived > 0 && arrived == live) complete_phase(*this);
  if (!is_alone() && thread.block->has_exited()) retire(*thread.block);
}

// From here on nobody may use the block's shared memory: a read finds NaN, a write shows when the cluster ends.
void Cluster::retire(Block& block) {
  if (const char* name = block.shared.overrun()) {
    throw BlockFailure{block_prefix(block) + "write outside shared array '" + name + "'"};
  }
  block.shared.poison();
}

void Cluster::check_shared_memory(Block& block) {
  if (is_alone()) {
    const char* name = block.shared.overrun();
    if (name != nullptr) error = block_prefix(block) + "write outside shared array '" + name + "'";
  } else if (const void* address = block.shared.first_written(); address != nullptr) {
    error = block_prefix(block) + "another block of the cluster wrote " + block.shared.describe(address) +
            " after this one had exited";
  }
}

Block* Cluster::holder(const void* address) const {
  for (const auto& block : blocks) {
    if (block->shared.contains(address)) return block.get();
  }
  return nullptr;
}

unsigned cluster_rank() {
  return static_cast<unsigned>(running_thread().block->rank);
}

uint3 cluster_position() {
  const Block& block = *running_thread().block;
  return position_of(block.rank, block.grid->cluster);
}

dim3 cluster_shape() {
  return running_thread().block->grid->cluster;
}

void cluster_arrive(bool releases, Site at) {
  Thread& self = running_thread();
  Cluster& cluster = *self.block->cluster;
  if (self.in_cluster_phase) fail(at, "barrier.cluster.arrive: this thread has arrived before and not waited");
  if constexpr (kWatches) watch::cluster_arrives(self, releases);
  self.in_cluster_phase = true;
  self.cluster_phase = cluster.phase;
  if (++cluster.arrived == cluster.live) complete_phase(cluster);
}

void cluster_wait(Site at) {
  Thread& self = running_thread();
  Cluster& cluster = *self.block->cluster;
  if (!self.in_cluster_phase) fail(at, "barrier.cluster.wait: this thread has not arrived");
  if (self.cluster_phase == cluster.phase) {
    self.state = State::kAtClusterBarrier;
    self.waits_in = "barrier.cluster.wait";
    self.wait_site = at;
    switch_to_next(self);
  }
  self.in_cluster_phase = false;
  if constexpr (kWatches) watch::cluster_waits(self);
}

void wait_for_kernels_ahead(Site at) {
  Thread& self = running_thread();
  if constexpr (kWatches) {
    watch::dependence_waits(self);
  } else if (Hidden* hidden = self.block->cluster->hidden; hidden != nullptr && hidden->is_hidden()) {
    give_way(at);  // what the others do before they wait they do without
    hidden->reveal();
  }
}

void* map_shared(const void* address, unsigned rank, Site at) {
  Block& own = *running_thread().block;
  const std::vector<std::unique_ptr<Block>>& blocks = own.cluster->blocks;
  if (rank >= blocks.size()) fail(at, "mapa: rank %u, the cluster has %zu blocks", rank, blocks.size());
  const SharedArray* array = own.shared.find(address);
  if (array == nullptr) fail(at, "mapa: shared address: %s", own.shared.complaint(address, 1).c_str());
  const size_t offset = own.shared.offset_of(address) - array->begin;
  SharedArena& theirs = blocks[rank]->shared;
  if (array->key == nullptr) return static_cast<char*>(theirs.dynamic()) + offset;
  // The other block may not have come to its declaration yet.
  std::string complaint;
  void* storage = theirs.static_array(array->key, array->bytes, array->alignment, array->name,
                                      own.settings.static_shared_limit, own.settings.shared_limit, complaint);
  if (storage == nullptr) fail(at, "%s", complaint.c_str());
  return static_cast<char*>(storage) + offset;
}

}  // namespace spark::emulator
