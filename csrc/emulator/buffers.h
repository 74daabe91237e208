// The global memory that kernels are given, by name: what a sanitized run says about an address, and what a dependent
// launch may not see yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace spark::emulator {

struct GlobalBuffer {
  std::string name;
  const char* begin;
  size_t bytes;
  bool writable;
  bool written_ahead = false;    // by the kernel ahead of the next launch
  std::vector<uint8_t> written;  // a byte each, for writable ones where reads are checked: 1 once it has a value

  bool holds(const void* address, size_t count) const {
    const auto offset = static_cast<size_t>(static_cast<const char*>(address) - begin);  // wraps when before begin
    return offset < bytes && count <= bytes - offset;
  }
};

class GlobalBuffers {
 public:
  void add(const char* name, const void* begin, size_t bytes, bool writable, bool written);
  void remove(const void* begin);
  void mark_written_ahead(const void* begin);
  // A launch has ended: what was ahead of it is no longer ahead of the next.
  void forget_ahead();

  const std::map<const char*, GlobalBuffer>& all() const { return by_begin_; }

  // The buffer in which `address` lies, or null.
  GlobalBuffer* find(const void* address);
  // "byte 12 of 'k'", "4 bytes past the end of 'k' (of 4096 bytes)" or "address 0x…, in no buffer".
  std::string describe(const void* address, size_t bytes) const;

 private:
  std::map<const char*, GlobalBuffer> by_begin_;
};

GlobalBuffers& global_buffers();

}  // namespace spark::emulator
