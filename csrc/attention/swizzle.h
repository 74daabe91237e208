// The XOR swizzle of 16-byte chunks that keeps ldmatrix and cp.async free of bank conflicts.
#pragma once

#include "common/platform.h"

namespace spark {

// What a row's number does to its chunks: chunk c of it lies at c ^ swizzle_key. The key of a sum of
// rows without a common bit is the XOR of their keys.
template <int HEAD_DIM>
SPARK_HOST_DEVICE constexpr int swizzle_key(int row) {
  return HEAD_DIM % 64 == 0 ? row & 7 : (row >> 1) & 3;
}

// Element offset of 16-byte chunk `chunk` of row `row` in a [rows, HEAD_DIM] tile of 2-byte elements.
//
// Eight rows of one logical chunk must fall in eight different 16-byte bank groups. Where a row is a multiple of
// 128 bytes, the row number moves the chunk; else a row is 64 bytes past one, neighbouring rows already differ by half
// of the banks and pairs of rows move the chunk.
template <int HEAD_DIM>
SPARK_HOST_DEVICE int swizzled_offset(int row, int chunk) {
  static_assert(HEAD_DIM % 32 == 0, "a row must be a multiple of 64 bytes");
  return row * HEAD_DIM + (chunk ^ swizzle_key<HEAD_DIM>(row)) * 8;
}

// The chunks 2 * i + odd of one row, `odd` being 0 or 1, in a swizzled tile. Rows a multiple of 8 further on are moved
// alike. A few offsets serve all chunks, the rest being the instruction's own offset; the compiler would form them anew
// for each part of a row, and hold twice as many.
template <int HEAD_DIM>
struct SwizzledRow {
  static constexpr int MOVED = HEAD_DIM % 64 == 0 ? 7 : 3;  // bits of the chunk

  SPARK_DEVICE SwizzledRow(int row, int odd) {
    const int key = swizzle_key<HEAD_DIM>(row) ^ odd;
#pragma unroll
    for (int i = 0; i <= MOVED / 2; ++i) {
      offset[i] = row * HEAD_DIM + ((2 * i) ^ key) * 8;
      asm("" : "+r"(offset[i]));  // not to be taken apart
    }
  }

  template <typename T>
  SPARK_DEVICE const T* at(const T* tile, int even_chunk) const {
    return tile + offset[(even_chunk & MOVED) / 2] + (even_chunk & ~MOVED) * 8;
  }

  int offset[(MOVED + 1) / 2];
};

// Element offset of (row, col) in a [rows, HEAD_DIM] tile of fp32: four neighbouring rows use different banks, and runs
// of eight columns stay together.
template <int HEAD_DIM>
SPARK_HOST_DEVICE int swizzled_offset_fp32(int row, int col) {
  static_assert(HEAD_DIM % 32 == 0, "eight-column runs are permuted within 32 columns");
  return row * HEAD_DIM + (col ^ ((row & 3) << 3));
}

}  // namespace spark
