// The blocks that run in one schedule on one host thread: those of a thread block cluster, or one block alone, which
// is a cluster of one.
#pragma once

#include "emulator/block.h"

namespace spark::emulator {

class Hidden;

constexpr unsigned kMaxClusterBlocks = 8;  // the portable limit

struct Cluster {
  std::vector<std::unique_ptr<Block>> blocks;  // by rank
  Hidden* hidden = nullptr;                    // what the kernel ahead changed; null where nothing is to be hidden
  Context home;                                // of the worker, resumed when all blocks have ended or one has failed
  std::string error;                           // empty while all is well
  uint64_t random;                             // for the choice among blocks
  int idle_rounds;
  int live;        // threads that have not exited
  int arrived;     // of these, at barrier.cluster in the phase under way
  uint32_t phase;  // of barrier.cluster

  bool is_alone() const { return blocks.size() == 1; }

  // Runs the blocks from `first` on to their end or their first error.
  void run(uint3 first);

  // The block whose ready thread goes on now; null where none is ready.
  Block* next_block();
  // Throws where there is none, or where they have spun for too long.
  void wake_those_that_gave_way();

  // The thread has been counted out of its block.
  void thread_exits(Thread& thread);

  // The block in whose shared memory the address lies, or null.
  Block* holder(const void* address) const;

 private:
  void retire(Block& block);
  void check_shared_memory(Block& block);
};

}  // namespace spark::emulator
