// Where the rows of K and V lie: contiguous, or in pages. The kernels are written once, over either.
#pragma once

#include "attention/params.h"
#include "common/platform.h"
#include "common/warp.h"
#include "ptx/prefetch.h"

namespace spark {

// Rows of one sequence. A lane looks up the row of one key, ahead of time; the warp then copies every lane's row.
struct ContiguousRows {
  static constexpr bool CONTIGUOUS = true;
  using Index = int;  // the key

  SPARK_DEVICE ContiguousRows(const AttentionParams&, int batch) : batch_(batch), first_(0) {}

  // Of a packed batch, whose batch stride is 0, the sequence begins where the one ahead of it ends.
  SPARK_DEVICE ContiguousRows(const PrefillParams& p, int batch)
      : batch_(batch), first_(p.kv_indptr == nullptr ? 0 : p.kv_indptr[batch]) {}

  template <typename T>
  SPARK_DEVICE const T* head_base(const void* tensor, const TensorStrides& stride, int head) const {
    return static_cast<const T*>(tensor) + batch_ * stride.batch + head * stride.head + first_ * stride.len;
  }

  SPARK_DEVICE Index look_up(int kv, int) const { return kv; }

  // The row `row` keys behind the one that lane 0 has looked up.
  SPARK_DEVICE static Index from_lane(Index, int first_kv, int row) { return first_kv + row; }

  template <typename T>
  SPARK_DEVICE static const T* row(const T* base, const TensorStrides& stride, Index kv) {
    return base + kv * stride.len;
  }

 private:
  int batch_;
  int first_;  // key of the sequence in a packed batch
};

struct PagedRows {
  static constexpr bool CONTIGUOUS = false;
  struct Index {
    int page;
    int slot;
  };

  SPARK_DEVICE PagedRows(const AttentionParams& p, int batch)
      : table_(p.page_table + batch * p.page_table_stride), page_size_(p.page_size), num_pages_(p.num_pages) {
    shift_ = (page_size_ & (page_size_ - 1)) == 0 ? 31 - __clz(page_size_) : -1;
  }

  template <typename T>
  SPARK_DEVICE const T* head_base(const void* pages, const TensorStrides& stride, int head) const {
    return static_cast<const T*>(pages) + head * stride.head;
  }

  // Keys at or past `kv_end` have no page: the table is not read for them.
  SPARK_DEVICE Index look_up(int kv, int kv_end) const {
    if (kv >= kv_end) return {0, 0};
    const int entry = entry_of(kv);
    const int page = table_[entry];
#if SPARK_CHECKS
    if (page < 0 || page >= num_pages_) __trap();
#endif
    return {page, kv - entry * page_size_};
  }

  // The page table of the keys [begin, end) into L2, by the whole CTA: no look-up of them waits for DRAM. Reads
  // nothing.
  SPARK_DEVICE void prefetch(int begin, int end) const {
    constexpr int LINE = 128 / sizeof(int32_t);
    if (begin >= end) return;
    const int last = entry_of(end - 1);
#pragma unroll 1
    for (int entry = entry_of(begin) + threadIdx.x * LINE; entry <= last; entry += SPARK_BLOCK * LINE) {
      ptx::prefetch_l2(table_ + entry);
    }
  }

  SPARK_DEVICE static Index from_lane(Index mine, int, int row) {
    return {__shfl_sync(kFullMask, mine.page, row), __shfl_sync(kFullMask, mine.slot, row)};
  }

  template <typename T>
  SPARK_DEVICE static const T* row(const T* base, const TensorStrides& stride, Index index) {
    return base + offset(stride, index);
  }

  // Of the row's first element.
  SPARK_DEVICE static int64_t offset(const TensorStrides& stride, Index index) {
    return index.page * stride.batch + index.slot * stride.len;
  }

 private:
  SPARK_DEVICE int entry_of(int kv) const { return shift_ >= 0 ? kv >> shift_ : kv / page_size_; }

  const int32_t* table_;
  int page_size_;
  int num_pages_;
  int shift_;  // log2 of a page size that is a power of two, else -1: a division is some 30 instructions
};

}  // namespace spark
