// Releases and acquires.
#include "emulator/knowledge.h"

namespace spark::emulator {

void Progress::start_block(uint32_t block, int threads) {
  block_ = block;
  threads_.assign(threads, {});
  for (int i = 0; i < threads; ++i) {
    threads_[i].known.own.assign(threads, 0);
    threads_[i].known.own[i] = 1;
  }
}

void Progress::arrive(int thread, Knowledge& phase) {
  Knowledge& known = threads_[thread].known;
  join(phase, known);
  ++known.own[thread];
}

void Progress::arrive_across(int thread, Knowledge& phase) {
  Knowledge& known = threads_[thread].known;
  join(phase.others, known.others);
  join(phase.others[block_], known.own);
  phase.waited = phase.waited || known.waited;
  ++known.own[thread];
}

void Progress::leave_across(int thread, const Knowledge& phase) {
  Knowledge& known = threads_[thread].known;
  for (const auto& [block, clocks] : phase.others) join(block == block_ ? known.own : known.others[block], clocks);
  known.waited = known.waited || phase.waited;
}

void Progress::fence(int thread, bool device_scope) {
  ThreadProgress& self = threads_[thread];
  Knowledge& known = self.known;
  const auto acquire = [&](const BlockClocks& from, bool everywhere) {
    for (const auto& [block, clocks] : from) {
      if (block == block_)
        join(known.own, clocks);
      else if (everywhere)
        join(known.others[block], clocks);
    }
  };
  acquire(self.acquired.block, false);
  acquire(self.acquired.device, device_scope);
  BlockClocks released = known.others;
  released[block_] = known.own;
  if (device_scope) self.released.device = released;
  self.released.block = std::move(released);
  ++known.own[thread];
}

void Progress::atomic(int thread, Scoped& there, bool reads, bool writes) {
  ThreadProgress& self = threads_[thread];
  if (reads) {
    join(self.acquired.block, there.block);
    join(self.acquired.device, there.device);
  }
  if (writes) {
    join(there.block, self.released.block);
    join(there.device, self.released.device);
  }
}

}  // namespace spark::emulator
