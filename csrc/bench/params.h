// What the host hands to the read-ceiling kernel: a plain struct, no CUDA header.
#pragma once

#include "common/integers.h"

namespace spark {

// Every byte of data read once; blocks is the grid.
struct StreamReadParams {
  const void* data;    // [chunks * 16] bytes, 16-byte aligned
  uint32_t* checksum;  // [blocks]; the XOR of the words that a block read
  int64_t chunks;      // of 16 bytes
  int32_t blocks;
};

static_assert(sizeof(StreamReadParams) == 32, "params.h: StreamReadParams changed size");

}  // namespace spark
