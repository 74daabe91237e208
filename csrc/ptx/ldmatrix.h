// ldmatrix.sync.aligned.m8n8.shared.b16: 8x8 matrices of 16-bit elements from shared memory into mma fragments.
// Lanes 8i … 8i+7 pass the addresses of the rows of matrix i, 16 bytes each, 16-byte aligned; lane l receives elements
// 2(l%4) and 2(l%4)+1 of row l/4 of each matrix, with _trans those of the transposed matrix.
#pragma once

#include "common/platform.h"

namespace spark::ptx {

SPARK_DEVICE void ldmatrix_x1(uint32_t (&r)[1], const void* smem_row) {
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(smem_row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(address) : "memory");
}

SPARK_DEVICE void ldmatrix_x2(uint32_t (&r)[2], const void* smem_row) {
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(smem_row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(address)
               : "memory");
}

SPARK_DEVICE void ldmatrix_x4(uint32_t (&r)[4], const void* smem_row) {
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(smem_row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

SPARK_DEVICE void ldmatrix_x1_trans(uint32_t (&r)[1], const void* smem_row) {
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(smem_row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(address) : "memory");
}

SPARK_DEVICE void ldmatrix_x2_trans(uint32_t (&r)[2], const void* smem_row) {
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(smem_row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(address)
               : "memory");
}

SPARK_DEVICE void ldmatrix_x4_trans(uint32_t (&r)[4], const void* smem_row) {
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(smem_row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

}  // namespace spark::ptx
