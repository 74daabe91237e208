// The arena behind SHARED_ARRAY and DYNAMIC_SHARED.
#include "emulator/shared_arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace spark::emulator {
namespace {

constexpr unsigned char kUnwritten = 0xff;

size_t round_up(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

SharedArena::~SharedArena() {
  if (base_ != nullptr) munmap(base_, kCapacity);
}

bool SharedArena::reserve() {
  if (base_ != nullptr) return true;
  void* memory = mmap(nullptr, kCapacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  base_ = static_cast<char*>(memory);
  return true;
}

void SharedArena::reset(size_t dynamic_bytes) {
  arrays_.clear();
  arrays_.push_back({nullptr, "dynamic shared memory", kGap, dynamic_bytes, 16});
  static_bytes_ = 0;
  end_ = round_up(kGap + dynamic_bytes, 16) + kGap;
  std::memset(base_, kUnwritten, end_);
}

void* SharedArena::static_array(const void* key, size_t bytes, size_t alignment, const char* name, size_t limit,
                                size_t block_limit, std::string& error) {
  for (size_t i = 1; i < arrays_.size(); ++i) {
    if (arrays_[i].key == key) return base_ + arrays_[i].begin;
  }
  static_bytes_ = round_up(static_bytes_, std::max<size_t>(alignment, 16)) + bytes;
  char text[160];
  if (static_bytes_ > limit) {
    std::snprintf(text, sizeof text, "static shared memory with '%s' takes %zu bytes, the limit is %zu", name,
                  static_bytes_, limit);
    error = text;
    return nullptr;
  }
  if (static_bytes_ + arrays_[0].bytes > block_limit) {
    std::snprintf(text, sizeof text, "shared memory with '%s' takes %zu bytes, %zu of them dynamic; the limit is %zu",
                  name, static_bytes_ + arrays_[0].bytes, arrays_[0].bytes, block_limit);
    error = text;
    return nullptr;
  }
  const size_t begin = round_up(end_, std::max<size_t>(alignment, 16));
  std::memset(base_ + end_, kUnwritten, begin - end_ + round_up(bytes, 16) + kGap);
  arrays_.push_back({key, name, begin, bytes, alignment});
  end_ = begin + round_up(bytes, 16) + kGap;
  return base_ + begin;
}

const SharedArray* SharedArena::find(const void* address) const {
  if (!contains(address)) return nullptr;
  const size_t at = offset_of(address);
  for (const SharedArray& array : arrays_) {
    if (at >= array.begin && at <= array.begin + array.bytes) return &array;
  }
  return nullptr;
}

bool SharedArena::holds(const void* address, size_t bytes) const {
  const auto begin = static_cast<size_t>(static_cast<const char*>(address) - base_);  // wraps when before base_
  return std::any_of(arrays_.begin(), arrays_.end(), [&](const SharedArray& array) {
    return begin >= array.begin && begin < array.begin + array.bytes && begin + bytes <= array.begin + array.bytes;
  });
}

std::string SharedArena::complaint(const void* address, size_t bytes) const {
  const char* p = static_cast<const char*>(address);
  if (p < base_ || p >= base_ + end_) return "not in this block's shared memory";
  const size_t begin = p - base_;
  const SharedArray* before = nullptr;
  for (const SharedArray& array : arrays_) {
    if (begin >= array.begin) before = &array;
  }
  if (before == nullptr) return "before the block's first shared array";
  char text[160];
  std::snprintf(text, sizeof text, "%zu bytes at byte %zu of '%s', which has %zu", bytes, begin - before->begin,
                before->name, before->bytes);
  return text;
}

std::string SharedArena::describe(const void* address) const {
  for (const SharedArray& array : arrays_) {
    const size_t at = offset_of(address) - array.begin;
    if (offset_of(address) >= array.begin && at < array.bytes) {
      return "byte " + std::to_string(at) + " of '" + array.name + "'";
    }
  }
  return "a gap between shared arrays";
}

void SharedArena::poison() {
  std::memset(base_, kUnwritten, end_);
}

const void* SharedArena::first_written() const {
  const char* end = base_ + end_;
  const char* found =
      std::find_if(base_, base_ + end_, [](char c) { return static_cast<unsigned char>(c) != kUnwritten; });
  return found == end ? nullptr : found;
}

bool SharedArena::gap_is_intact(size_t begin, size_t end) const {
  return std::all_of(base_ + begin, base_ + end, [](char c) { return static_cast<unsigned char>(c) == kUnwritten; });
}

const char* SharedArena::overrun() const {
  if (!gap_is_intact(0, kGap)) return arrays_[0].name;
  for (size_t i = 0; i < arrays_.size(); ++i) {
    const size_t end = i + 1 < arrays_.size() ? arrays_[i + 1].begin : end_;
    if (!gap_is_intact(arrays_[i].begin + arrays_[i].bytes, end)) return arrays_[i].name;
  }
  return nullptr;
}

}  // namespace spark::emulator
