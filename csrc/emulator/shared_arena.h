// A block's shared memory: its dynamic part and its static arrays at their exact sizes, with gaps between them.
// Everything is 0xFF, a NaN in bf16, fp16 and fp32, until the kernel writes it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace spark::emulator {

struct SharedArray {
  const void* key;  // null: the dynamic part
  const char* name;
  size_t begin;  // its offset in the arena
  size_t bytes;
  size_t alignment;
};

class SharedArena {
 public:
  SharedArena() = default;
  SharedArena(const SharedArena&) = delete;
  SharedArena& operator=(const SharedArena&) = delete;
  ~SharedArena();

  // False when the system gives no memory.
  bool reserve();

  // Before each block: forgets the static arrays and fills the dynamic part.
  void reset(size_t dynamic_bytes);

  void* dynamic() const { return base_ + kGap; }

  // The array's storage, the same for every thread that asks with this key. Empty `error` means it was given.
  void* static_array(const void* key, size_t bytes, size_t alignment, const char* name, size_t limit,
                     size_t block_limit, std::string& error);

  // The array that the address lies in, or just past; null where there is none.
  const SharedArray* find(const void* address) const;

  // Whether [address, address + bytes) lies inside one array.
  bool holds(const void* address, size_t bytes) const;
  // What it is when it does not.
  std::string complaint(const void* address, size_t bytes) const;

  // The array beside a gap that was written to, or null.
  const char* overrun() const;

  // Makes all of it 0xFF again, and tells the first byte that has been written since, or null.
  void poison();
  const void* first_written() const;

  bool contains(const void* address) const { return address >= base_ && address < base_ + kCapacity; }
  // "byte 12 of 'k_smem'"
  std::string describe(const void* address) const;

  // The name under which the kernel declares its dynamic part.
  void name_dynamic(const char* name) { arrays_[0].name = name; }

  size_t offset_of(const void* address) const { return static_cast<const char*>(address) - base_; }

 private:
  static constexpr size_t kGap = 256;
  static constexpr size_t kCapacity = 1 << 20;  // above every arch's limit, so that the limit's check speaks first

  bool gap_is_intact(size_t begin, size_t end) const;

  char* base_ = nullptr;
  size_t end_ = 0;  // of what is in use, gap included
  size_t static_bytes_ = 0;
  std::vector<SharedArray> arrays_;  // [0] is the dynamic part
};

}  // namespace spark::emulator
