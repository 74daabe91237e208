// Copies of named memory before a launch, and what differs from them after it.
#include "emulator/dependence.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "emulator/buffers.h"

namespace spark::emulator {
namespace {

constexpr size_t kWord =
    4;  // changes are told in words, so that a value's bytes that stayed are hidden with the others
constexpr size_t kStride = 4096;
constexpr int kPoison = 0xff;
constexpr size_t kMostMovedBytes = size_t{1} << 30;  // then later blocks see all: a tenth of a second

struct Watched {
  std::vector<char> before;
  std::vector<ChangedRange> changed;
};

// Never destroyed: see settings.cpp.
struct Kernels {
  std::mutex mutex;
  std::map<const void*, Watched> buffers;  // by their begin
};

Kernels& kernels() {
  static auto* const instance = new Kernels;
  return *instance;
}

void add_words(char* now, const char* before, size_t bytes, std::vector<ChangedRange>& changed) {
  for (size_t at = 0; at < bytes; at += kWord) {
    const size_t word = std::min(kWord, bytes - at);
    if (std::memcmp(now + at, before + at, word) == 0) continue;
    if (!changed.empty() && changed.back().begin + changed.back().bytes == now + at) {
      changed.back().bytes += word;
    } else {
      changed.push_back({now + at, word});
    }
  }
}

std::vector<ChangedRange> find_changes(char* now, const std::vector<char>& before) {
  std::vector<ChangedRange> changed;
  for (size_t at = 0; at < before.size(); at += kStride) {
    const size_t bytes = std::min(kStride, before.size() - at);
    if (std::memcmp(now + at, before.data() + at, bytes) != 0) add_words(now + at, before.data() + at, bytes, changed);
  }
  return changed;
}

}  // namespace

void Hidden::hide() {
  if (is_hidden_ || moved_bytes_ > kMostMovedBytes) return;
  kept_.clear();
  for (const ChangedRange& range : ranges_) {
    kept_.insert(kept_.end(), range.begin, range.begin + range.bytes);
    std::memset(range.begin, kPoison, range.bytes);
  }
  moved_bytes_ += kept_.size();
  is_hidden_ = true;
}

void Hidden::reveal() {
  if (!is_hidden_) return;
  const char* kept = kept_.data();
  for (const ChangedRange& range : ranges_) {
    for (size_t i = 0; i < range.bytes; ++i, ++kept) {
      if (static_cast<unsigned char>(range.begin[i]) == kPoison) range.begin[i] = *kept;
    }
  }
  is_hidden_ = false;
}

namespace dependence {

std::vector<ChangedRange> launch_begins() {
  std::vector<ChangedRange> changed;
  const std::lock_guard lock(kernels().mutex);
  for (const auto& [begin, buffer] : global_buffers().all()) {
    if (buffer.written_ahead) changed.push_back({const_cast<char*>(begin), buffer.bytes});
    if (!buffer.writable) continue;
    Watched& watched = kernels().buffers[begin];
    if (!buffer.written_ahead) changed.insert(changed.end(), watched.changed.begin(), watched.changed.end());
    watched.changed.clear();
    watched.before.assign(begin, begin + buffer.bytes);
  }
  return changed;
}

void launch_ends() {
  const std::lock_guard lock(kernels().mutex);
  for (const auto& [begin, buffer] : global_buffers().all()) {
    const auto found = kernels().buffers.find(begin);
    if (found == kernels().buffers.end() || !buffer.writable) continue;
    found->second.changed = find_changes(const_cast<char*>(begin), found->second.before);
  }
}

void forget_buffer(const void* begin) {
  const std::lock_guard lock(kernels().mutex);
  kernels().buffers.erase(begin);
}

}  // namespace dependence
}  // namespace spark::emulator
