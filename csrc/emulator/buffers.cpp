// The registry behind spark_emulator_add_buffer.
#include "emulator/buffers.h"

#include <cstdio>

#include "emulator/dependence.h"
#include "emulator/emulator.h"
#include "emulator/watch.h"

namespace spark::emulator {
namespace {

constexpr int64_t kNear = 1 << 20;  // further away an address has nothing to do with a buffer

}  // namespace

void GlobalBuffers::add(const char* name, const void* begin, size_t bytes, bool writable, bool written) {
  const char* first = static_cast<const char*>(begin);
  GlobalBuffer buffer{name, first, bytes, writable, false, {}};
  if (kChecksMemory && writable) buffer.written.assign(bytes, static_cast<uint8_t>(written));
  by_begin_[first] = std::move(buffer);
}

void GlobalBuffers::remove(const void* begin) {
  by_begin_.erase(static_cast<const char*>(begin));
}

void GlobalBuffers::mark_written_ahead(const void* begin) {
  const auto found = by_begin_.find(static_cast<const char*>(begin));
  if (found != by_begin_.end()) found->second.written_ahead = true;
}

void GlobalBuffers::forget_ahead() {
  for (auto& [begin, buffer] : by_begin_) buffer.written_ahead = false;
}

GlobalBuffer* GlobalBuffers::find(const void* address) {
  auto after = by_begin_.upper_bound(static_cast<const char*>(address));
  if (after == by_begin_.begin()) return nullptr;
  GlobalBuffer& buffer = std::prev(after)->second;
  return buffer.holds(address, 1) ? &buffer : nullptr;
}

std::string GlobalBuffers::describe(const void* address, size_t bytes) const {
  const char* p = static_cast<const char*>(address);
  const GlobalBuffer* nearest = nullptr;
  int64_t distance = kNear;
  for (const auto& [begin, buffer] : by_begin_) {
    const int64_t before = begin - p, after = p - (begin + buffer.bytes);
    const int64_t here = before > 0 ? before : after >= 0 ? after : 0;
    if (here >= distance) continue;
    distance = here;
    nearest = &buffer;
  }
  char text[200];
  if (nearest == nullptr) {
    std::snprintf(text, sizeof text, p == nullptr ? "a null pointer" : "address %p, in no buffer", address);
    return text;
  }
  const char* name = nearest->name.c_str();
  const char* end = nearest->begin + nearest->bytes;
  if (p < nearest->begin) {
    std::snprintf(text, sizeof text, "%zu bytes before '%s'", static_cast<size_t>(nearest->begin - p), name);
  } else if (p + bytes > end) {
    std::snprintf(text, sizeof text, "up to %zu bytes past the end of '%s', which has %zu",
                  static_cast<size_t>(p + bytes - end), name, nearest->bytes);
  } else {
    std::snprintf(text, sizeof text, "byte %zu of '%s'", static_cast<size_t>(p - nearest->begin), name);
  }
  return text;
}

GlobalBuffers& global_buffers() {
  static auto* const instance = new GlobalBuffers;
  return *instance;
}

extern "C" {

void spark_emulator_add_buffer(const char* name, const void* begin, size_t bytes, int writable, int written) {
  dependence::forget_buffer(begin);
  global_buffers().add(name, begin, bytes, writable != 0, written != 0);
}

void spark_emulator_remove_buffer(const void* begin) {
  dependence::forget_buffer(begin);
  global_buffers().remove(begin);
}

void spark_emulator_written_ahead(const void* begin) {
  global_buffers().mark_written_ahead(begin);
}
}

}  // namespace spark::emulator
