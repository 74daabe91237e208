// The XOR swizzle of 16-byte chunks that keeps ldmatrix and cp.async free of bank conflicts.
#pragma once

#include "common/platform.h"

namespace spark {

// Element offset of 16-byte chunk `chunk` of row `row` in a [rows, HEAD_DIM] tile of 2-byte elements.
//
// Eight rows of one logical chunk must fall in eight different 16-byte bank groups. Where a row is a multiple of
// 128 bytes, the row number moves the chunk; else a row is 64 bytes past one, neighbouring rows already differ by half
// of the banks and pairs of rows move the chunk.
template <int HEAD_DIM>
SPARK_HOST_DEVICE int swizzled_offset(int row, int chunk) {
  static_assert(HEAD_DIM % 32 == 0, "a row must be a multiple of 64 bytes");
  constexpr int CHUNKS = HEAD_DIM / 8;
  const int moved = CHUNKS % 8 == 0 ? chunk ^ (row & 7) : chunk ^ ((row >> 1) & 3);
  return row * HEAD_DIM + moved * 8;
}

// swizzled_offset of the chunks 2 * i + odd of one row, `odd` being 0 or 1: the part that the swizzle moves is kept
// apart from what is known when compiling, so that few addresses are computed and held. Rows a multiple of 8 further on
// are moved alike.
template <int HEAD_DIM>
struct SwizzledRow {
  static constexpr int MOVED = HEAD_DIM % 64 == 0 ? 7 : 3;  // bits of the chunk

  SPARK_HOST_DEVICE SwizzledRow(int row, int odd)
      : first(row * HEAD_DIM), key((HEAD_DIM % 64 == 0 ? row & 7 : (row >> 1) & 3) ^ odd) {}

  SPARK_HOST_DEVICE int offset(int even_chunk) const {
    return first + (even_chunk & ~MOVED) * 8 + ((even_chunk & MOVED) ^ key) * 8;
  }

  int first;
  int key;
};

// Element offset of (row, col) in a [rows, HEAD_DIM] tile of fp32: four neighbouring rows use different banks, and runs
// of eight columns stay together.
template <int HEAD_DIM>
SPARK_HOST_DEVICE int swizzled_offset_fp32(int row, int col) {
  static_assert(HEAD_DIM % 32 == 0, "eight-column runs are permuted within 32 columns");
  return row * HEAD_DIM + (col ^ ((row & 3) << 3));
}

}  // namespace spark
