// Running a grid: its checks, its order of blocks and the host threads they are spread over.
#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <numeric>
#include <system_error>
#include <thread>

#include "emulator/buffers.h"
#include "emulator/cluster.h"
#include "emulator/dependence.h"
#include "emulator/undefined.h"
#include "emulator/watch.h"

namespace spark::emulator {
namespace {

// Blocks, with their stacks, that no launch is using. Never destroyed: see settings.cpp.
struct BlockPool {
  std::mutex mutex;
  std::vector<std::unique_ptr<Block>> free;
};

BlockPool& pool() {
  static BlockPool* const instance = new BlockPool;
  return *instance;
}

std::unique_ptr<Block> borrow_block() {
  const std::lock_guard lock(pool().mutex);
  if (pool().free.empty()) return std::make_unique<Block>();
  std::unique_ptr<Block> block = std::move(pool().free.back());
  pool().free.pop_back();
  return block;
}

void give_back_block(std::unique_ptr<Block> block) {
  const std::lock_guard lock(pool().mutex);
  pool().free.push_back(std::move(block));
}

uint64_t volume(dim3 size) {
  return static_cast<uint64_t>(size.x) * size.y * size.z;
}

// Empty when a GPU would take the launch.
std::string launch_complaint(const Grid& grid, const Settings& settings) {
  const auto shape = [](dim3 size) {
    return "(" + std::to_string(size.x) + "," + std::to_string(size.y) + "," + std::to_string(size.z) + ")";
  };
  const dim3 g = grid.grid, b = grid.block;
  if (current_thread != nullptr) return "launched from inside a kernel";
  if (volume(g) == 0 || g.x > 0x7fffffffu || g.y > 65535 || g.z > 65535) return "grid " + shape(g) + " is not possible";
  if (volume(b) == 0 || volume(b) > kMaxThreads || b.x > kMaxThreads || b.y > kMaxThreads || b.z > 64) {
    return "block " + shape(b) + " is not possible";
  }
  const dim3 c = grid.cluster;
  if (volume(c) == 0 || c.x > kMaxClusterBlocks || c.y > kMaxClusterBlocks || c.z > kMaxClusterBlocks ||
      volume(c) > kMaxClusterBlocks) {
    return "cluster " + shape(c) + " has " + std::to_string(volume(c)) + " blocks, accepted is 1 to " +
           std::to_string(kMaxClusterBlocks);
  }
  if (g.x % c.x != 0 || g.y % c.y != 0 || g.z % c.z != 0) {
    return "grid " + shape(g) + " is no multiple of cluster " + shape(c);
  }
  if (grid.dynamic_smem > settings.shared_limit) {
    return std::to_string(grid.dynamic_smem) + " bytes of dynamic shared memory, the limit is " +
           std::to_string(settings.shared_limit);
  }
  return {};
}

// One launch, shared by its workers. Clusters, mostly of one block, are handed out by position; the schedule maps a
// position to a cluster.
class GridRun {
 public:
  GridRun(const Grid& grid, void (*call)(const void*), const void* closure, const Settings& settings, Hidden* hidden)
      : grid_(grid),
        call_(call),
        closure_(closure),
        settings_(settings),
        hidden_(hidden),
        count_(volume(grid.grid) / volume(grid.cluster)) {
    if (settings.schedule != SPARK_EMULATOR_RANDOM_ORDER) return;
    // position * step + start (mod count) visits every cluster once when step has no factor in common with count
    step_ = mix_bits(settings.seed) % count_;
    while (std::gcd(step_, count_) != 1) step_ = (step_ + 1) % count_;
    start_ = mix_bits(settings.seed + 1) % count_;
  }

  // Takes clusters until none is left or one has failed.
  void work() {
    try {
      take_clusters();
    } catch (const std::exception& exception) {  // the host has no more memory
      note_failure(0, std::string(grid_.kernel) + ": " + exception.what());
    }
  }

  uint64_t count() const { return count_; }
  const std::string& error() const { return error_; }

 private:
  void take_clusters() {
    Cluster cluster;
    cluster.hidden = hidden_;
    for (uint64_t rank = 0; rank < volume(grid_.cluster); ++rank) add_block(cluster);
    while (!failed_.load(std::memory_order_relaxed)) {
      const uint64_t position = next_.fetch_add(1, std::memory_order_relaxed);
      if (position >= count_) break;
      cluster.run(first_block_at(position));
      if (!cluster.error.empty()) note_failure(position, cluster.error);
    }
    for (std::unique_ptr<Block>& block : cluster.blocks) give_back_block(std::move(block));
  }

  void add_block(Cluster& cluster) {
    Block& block = *cluster.blocks.emplace_back(borrow_block());
    block.cluster = &cluster;
    block.rank = static_cast<int>(cluster.blocks.size()) - 1;
    block.alone = volume(grid_.cluster) == 1;
    block.grid = &grid_;
    block.call = call_;
    block.closure = closure_;
    block.settings = settings_;
    block.thread_count = static_cast<int>(volume(grid_.block));
    if (!block.reserve(block.thread_count)) note_failure(0, std::string(grid_.kernel) + ": " + block.error);
  }

  uint3 first_block_at(uint64_t position) const {
    uint64_t i = position;
    if (settings_.schedule == SPARK_EMULATOR_DESCENDING) i = count_ - 1 - position;
    if (settings_.schedule == SPARK_EMULATOR_RANDOM_ORDER) {
      i = static_cast<uint64_t>((static_cast<unsigned __int128>(position) * step_ + start_) % count_);
    }
    const dim3 c = grid_.cluster;
    const uint64_t width = grid_.grid.x / c.x, height = grid_.grid.y / c.y;
    return {static_cast<unsigned>(i % width * c.x), static_cast<unsigned>(i / width % height * c.y),
            static_cast<unsigned>(i / width / height * c.z)};
  }

  // Of several failures the first by position is told: clusters before it have all been run, so it does not depend on
  // how many workers there are.
  void note_failure(uint64_t position, const std::string& error) {
    const std::lock_guard lock(mutex_);
    if (failed_.load(std::memory_order_relaxed) && position >= failed_position_) return;
    failed_position_ = position;
    error_ = error;
    failed_.store(true, std::memory_order_relaxed);
  }

  const Grid& grid_;
  void (*call_)(const void*);
  const void* closure_;
  const Settings settings_;
  Hidden* const hidden_;
  const uint64_t count_;
  uint64_t step_ = 1;
  uint64_t start_ = 0;
  std::atomic<uint64_t> next_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  uint64_t failed_position_ = 0;
  std::string error_;
};

void run_on_workers(GridRun& run, int workers) {
  const uint64_t useful = std::min<uint64_t>(workers, run.count());
  std::vector<std::thread> others;
  try {
    for (uint64_t i = 1; i < useful; ++i) others.emplace_back([&run] { run.work(); });
  } catch (const std::system_error&) {
    // The system gives no more threads: those that started, and this one, do the work.
  }
  run.work();
  for (std::thread& other : others) other.join();
}

// The error; empty where all went well.
std::string run_checked_grid(const Grid& grid, void (*call)(const void*), const void* closure,
                             const Settings& settings) {
  if constexpr (kWatches) {
    GridRun run(grid, call, closure, settings, nullptr);
    watch::launch_begins(grid, grid.dependent);
    run_on_workers(run, 1);
    global_buffers().forget_ahead();
    return run.error();
  }
  std::vector<ChangedRange> changed = dependence::launch_begins();
  Hidden hidden(grid.dependent ? std::move(changed) : std::vector<ChangedRange>());
  GridRun run(grid, call, closure, settings, hidden.empty() ? nullptr : &hidden);
  run_on_workers(run, hidden.empty() ? settings.workers : 1);
  hidden.reveal();
  dependence::launch_ends();
  global_buffers().forget_ahead();
  return run.error();
}

}  // namespace

Status run_grid(const Grid& grid, void (*call)(const void*), const void* closure) {
  const Settings settings = current_settings();
  note_launch(grid.kernel.data(), grid.kernel.size());
  std::string text = launch_complaint(grid, settings);
  if (text.empty()) text = take_host_fault();
  if (!text.empty()) {
    text = std::string(grid.kernel) + ": " + text;
  } else {
    text = run_checked_grid(grid, call, closure, settings);
  }
  if (text.empty()) return ok();
  note_error(text.c_str());
  return error("%s", text.c_str());
}

}  // namespace spark::emulator
