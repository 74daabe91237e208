// What SHARED_ARRAY and DYNAMIC_SHARED expand to in the emulator.
#pragma once

#include "emulator/runtime.h"

namespace spark::emulator {

void* static_shared(const void* key, size_t bytes, size_t alignment, const char* name, Site at);
void* dynamic_shared(const char* name);

// As __cvta_generic_to_shared: an offset into the block's shared memory.
size_t shared_offset(const void* address);

// Whether the address is aligned and the bytes lie inside one shared array.
bool is_shared(const void* address, size_t bytes, size_t alignment);
// For an address that is not: says why. `whose` begins the sentence.
[[noreturn]] void fail_shared(const void* address, size_t bytes, size_t alignment, const char* whose, Site at);

// The key is one address for each place in the source, and for each instantiation of a template.
template <typename T, size_t N>
T (&shared_array(const void* key, const char* name, Site at = Site::here()))
[N] {
  static_assert(N > 0, "a shared array has at least one element");
  return *static_cast<T(*)[N]>(static_shared(key, sizeof(T) * N, alignof(T), name, at));
}

}  // namespace spark::emulator
