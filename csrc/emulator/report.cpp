// The sentences of errors: where, who, and for a deadlock what every thread of the block is doing.
#include <cstring>

#include "emulator/cluster.h"

namespace spark::emulator {
namespace {

constexpr int kMaxRanges = 4;

// "0-15, 32, 40-47"; cut after a few ranges.
template <typename Contains>
std::string ranges(int count, Contains contains) {
  std::string text;
  int shown = 0;
  for (int begin = 0; begin < count;) {
    if (!contains(begin)) {
      ++begin;
      continue;
    }
    int end = begin;
    while (end + 1 < count && contains(end + 1)) ++end;
    if (shown++ == kMaxRanges) return text + ", ...";
    if (!text.empty()) text += ", ";
    text += std::to_string(begin);
    if (end > begin) text += "-" + std::to_string(end);
    begin = end + 1;
  }
  return text;
}

bool same_wait(const Thread& a, const Thread& b) {
  if (a.state != b.state) return false;
  if (a.state == State::kExited || a.state == State::kReady) return true;
  if (std::strcmp(a.waits_in, b.waits_in) != 0 || a.wait_site.line != b.wait_site.line) return false;
  if (std::strcmp(a.wait_site.file, b.wait_site.file) != 0) return false;
  if (a.state == State::kAtClusterBarrier) return true;
  return a.state == State::kAtBarrier ? a.barrier == b.barrier : a.wait_mask == b.wait_mask;
}

std::string what_it_does(const Block& block, const Thread& thread) {
  if (thread.state == State::kExited) return "exited";
  std::string text = std::string("in ") + thread.waits_in;
  if (thread.state == State::kAtBarrier) {
    const Barrier& barrier = block.barriers[thread.barrier];
    if (thread.barrier != 0) text += " " + std::to_string(thread.barrier);
    text += " (" + std::to_string(barrier.arrived) + " of " + std::to_string(barrier.expected) + ")";
  } else if (thread.state == State::kAtClusterBarrier) {
    const Cluster& cluster = *block.cluster;
    text += " (" + std::to_string(cluster.arrived) + " of " + std::to_string(cluster.live) + ")";
  } else {
    char mask[24];
    std::snprintf(mask, sizeof mask, " (mask 0x%08x)", thread.wait_mask);
    text += mask;
  }
  return text + " at " + describe(thread.wait_site);
}

// "threads 0-31 in ... ; threads 32-63 exited"
std::string what_threads_do(const Block& block) {
  std::string text;
  std::vector<bool> told(block.thread_count, false);
  for (int i = 0; i < block.thread_count; ++i) {
    if (told[i]) continue;
    const Thread& first = block.threads[i];
    const auto alike = [&](int j) { return same_wait(first, block.threads[j]); };
    for (int j = i; j < block.thread_count; ++j) told[j] = told[j] || alike(j);
    if (!text.empty()) text += "; ";
    text += "threads " + ranges(block.thread_count, alike) + " " + what_it_does(block, first);
  }
  return text;
}

}  // namespace

std::string describe(Site site) {
  const char* shown = site.file;
  if (const char* inside = std::strstr(site.file, "csrc/")) {
    shown = inside;
  } else if (const char* slash = std::strrchr(site.file, '/')) {
    shown = slash + 1;
  }
  return site.line > 0 ? std::string(shown) + ":" + std::to_string(site.line) : std::string(shown);
}

std::string describe_lanes(unsigned mask) {
  return ranges(kLanes, [mask](int lane) { return (mask >> lane & 1u) != 0; });
}

std::string block_name(const Block& block) {
  return "block (" + std::to_string(block.index.x) + "," + std::to_string(block.index.y) + "," +
         std::to_string(block.index.z) + ")";
}

std::string block_prefix(const Block& block) {
  return std::string(block.grid->kernel) + ": " + block_name(block) + ": ";
}

std::string describe_deadlock(const Cluster& cluster) {
  std::string text = block_prefix(*cluster.blocks[0]) + "deadlock: " + what_threads_do(*cluster.blocks[0]);
  for (size_t i = 1; i < cluster.blocks.size(); ++i) {
    text += "; " + block_name(*cluster.blocks[i]) + ": " + what_threads_do(*cluster.blocks[i]);
  }
  return text;
}

}  // namespace spark::emulator
