// paged_decode as Python calls it.
#include <tvm/ffi/function.h>

#include <algorithm>

#include "attention/geometry.h"
#include "bindings/attention.h"

namespace spark::bindings {
namespace {

constexpr int64_t LONGEST = int64_t{1} << 30;  // keys; what flags.yaml accepts

// Ids that live on the device are not read; on the CPU those of pages that hold keys that a query may see are checked.
void check_page_ids(const AttentionParams& p, DLDevice device) {
  if (device.device_type != kDLCPU || p.page_size == 0) return;
  for (int64_t b = 0; b < p.batch; ++b) {
    const KvRange keys = visible_range(p, p.qo_len, p.kv_lens[b]);
    for (int64_t entry = keys.begin / p.page_size; entry * p.page_size < keys.end; ++entry) {
      const int32_t page = p.page_table[b * p.page_table_stride + entry];
      if (page < 0 || page >= p.num_pages) {
        TVM_FFI_THROW(ValueError) << "page_table[" << b << ", " << entry << "] is " << page << ", accepted is 0 to "
                                  << p.num_pages - 1 << ", the pages of k_pages";
      }
    }
  }
}

}  // namespace

// k_pages, v_pages [num_pages, page_size, num_kv_heads, head_dim]; page_table int32 [batch, max_pages], kv_lens int32
// [batch].
void paged_decode(int64_t variant, int64_t combine_variant, TensorView q, TensorView k_pages, TensorView v_pages,
                  TensorView page_table, TensorView kv_lens, TensorView out, Optional<TensorView> lse,
                  TensorView part_acc, TensorView part_max, TensorView part_sum, double scale, bool causal,
                  int64_t window, double softcap, Optional<TensorView> mask, Optional<TensorView> sinks) {
  DecodeParams p = query_params(q);
  check_rank("k_pages", k_pages, 4, "[num_pages, page_size, num_kv_heads, head_dim]");
  check_shape("k_pages", k_pages, {k_pages.size(0), k_pages.size(1), k_pages.size(2), q.size(3)});
  set_kv(p, "k_pages", k_pages, "v_pages", v_pages, q);
  check_rank("page_table", page_table, 2, "[batch, max_pages]");
  check_shape("page_table", page_table, {q.size(0), page_table.size(1)});
  check_dtype("page_table", page_table, INT32);
  check_device("page_table", page_table, q.device());
  if (page_table.size(1) > 1 && page_table.stride(1) != 1) {
    TVM_FFI_THROW(ValueError) << "page_table has last stride " << page_table.stride(1) << ", accepted is 1";
  }
  p.num_pages = int32_of("num_pages", k_pages.size(0));
  p.page_size = int32_of("page_size", k_pages.size(1));
  p.page_table = static_cast<const int32_t*>(data_of(page_table));
  p.page_table_stride = page_table.stride(0);
  const int64_t capacity = std::min(page_table.size(1) * k_pages.size(1), LONGEST);
  p.kv_len = int32_of("kv_len", capacity);
  check_kv_lens(kv_lens, q.size(0), capacity, q.device());
  p.kv_lens = static_cast<const int32_t*>(data_of(kv_lens));
  set_options(p, {scale, causal, window, softcap, mask}, q, q.size(1), capacity);
  check_page_ids(p, q.device());
  run_decode("paged_decode", variant, combine_variant, p, q, {out, lse, part_acc, part_max, part_sum}, sinks);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(paged_decode, paged_decode);

}  // namespace spark::bindings
