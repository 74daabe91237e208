// mma.sync.aligned.m16n8k16.row.col: D[16, 8] = A[16, 16] B[16, 8] + C[16, 8], fp32 accumulation (sm_80 and up).
// With g = lane / 4 and t = lane % 4, each uint32_t holding two elements, the lower column (A) or row (B) in its low
// half:
//   a[0] = A[g, 2t..]  a[1] = A[g + 8, 2t..]  a[2] = A[g, 2t + 8..]  a[3] = A[g + 8, 2t + 8..]
//   b[0] = B[2t.., g]  b[1] = B[2t + 8.., g]
//   c, d: [0], [1] = [g, 2t], [g, 2t + 1]; [2], [3] = [g + 8, 2t], [g + 8, 2t + 1]
#pragma once

#include "common/types.h"

namespace spark::ptx {

template <typename T>
SPARK_DEVICE void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], const float (&c)[4]) {
  static_assert(sizeof(T) == 2, "mma_m16n8k16 takes bf16 or fp16");
  if constexpr (dtype_of<T> == DType::bf16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
  }
}

}  // namespace spark::ptx
