// What the attention operators share at the door: the query's side of the params, the partials, and the two launches.
#pragma once

#include <cmath>

#include "attention/geometry.h"
#include "attention/params.h"
#include "bindings/tensors.h"
#include "bindings/variants.h"
#include "common/dtype.h"

namespace spark::bindings {

using tvm::ffi::Optional;

inline constexpr double LOG2_E = 1.4426950408889634;
inline constexpr double LEAST_SCALE = 1e-30;
inline constexpr double LARGEST_SCALE = 1e30;

inline void check_on_backend(const TensorView& q) {
  if (q.device().device_type != SPARK_DEVICE_TYPE) {
    TVM_FFI_THROW(ValueError) << "q is on device type " << q.device().device_type << ", accepted is "
                              << (SPARK_DEVICE_TYPE == kDLCPU ? "the CPU: this library is the emulator's"
                                                              : "a CUDA device: this library is not the emulator's");
  }
}

inline void check_float16(const char* name, const TensorView& tensor) {
  const DLDataType dtype = tensor.dtype();
  if (dtype.bits != 16 || (dtype.code != kDLBfloat && dtype.code != kDLFloat) || dtype.lanes != 1) {
    TVM_FFI_THROW(TypeError) << name << " has dtype " << dtype_text(dtype) << ", accepted are bfloat16 and float16";
  }
}

// As params.h wants it; after check_float16.
inline int32_t dtype_code(const TensorView& tensor) {
  return static_cast<int32_t>(tensor.dtype().code == kDLBfloat ? DType::bf16 : DType::fp16);
}

// Values that live on the device are not read; on the CPU they are checked here.
// `limit` says what kv_len is.
inline void check_kv_lens(const TensorView& kv_lens, int64_t batch, int64_t kv_len, const char* limit,
                          DLDevice device) {
  check_device("kv_lens", kv_lens, device);
  check_dtype("kv_lens", kv_lens, INT32);
  check_shape("kv_lens", kv_lens, {batch});
  check_contiguous("kv_lens", kv_lens);
  if (device.device_type != kDLCPU) return;
  const int32_t* values = static_cast<const int32_t*>(data_of(kv_lens));
  for (int64_t b = 0; b < batch; ++b) {
    if (values[b] < 0 || values[b] > kv_len) {
      TVM_FFI_THROW(ValueError) << "kv_lens[" << b << "] is " << values[b] << ", accepted is 0 to " << kv_len << ", "
                                << limit;
    }
  }
}

inline Partials check_partials(const TensorView& acc, const TensorView& max, const TensorView& sum,
                               const TensorView& like) {
  const int64_t batch = like.size(0), qo_len = like.size(1), heads = like.size(2), head_dim = like.size(3);
  check_rank("part_max", max, 4, "[batch, qo_len, num_qo_heads, num_splits]");
  const int64_t num_splits = max.size(3);
  check_shape("part_acc", acc, {batch, qo_len, heads, num_splits, head_dim});
  check_shape("part_max", max, {batch, qo_len, heads, num_splits});
  check_shape("part_sum", sum, {batch, qo_len, heads, num_splits});
  const struct {
    const char* name;
    const TensorView& tensor;
  } parts[] = {{"part_acc", acc}, {"part_max", max}, {"part_sum", sum}};
  for (const auto& part : parts) {
    check_device(part.name, part.tensor, like.device());
    check_dtype(part.name, part.tensor, FLOAT32);
    check_contiguous(part.name, part.tensor);
  }
  check_alignment("part_acc", acc);
  return {static_cast<float*>(data_of(acc)), static_cast<float*>(data_of(max)), static_cast<float*>(data_of(sum))};
}

inline CombineParams combine_params(const Partials& partials, int64_t num_splits, const TensorView& out,
                                    const Optional<TensorView>& lse) {
  CombineParams p = {};
  p.dtype = dtype_code(out);
  p.head_dim = int32_of("head_dim", out.size(3));
  p.partials = partials;
  p.out = data_of(out);
  p.out_stride = row_strides("out", out);
  check_no_overlap("out", out);
  p.batch = int32_of("batch", out.size(0));
  p.qo_len = int32_of("qo_len", out.size(1));
  p.num_qo_heads = int32_of("num_qo_heads", out.size(2));
  p.num_splits = int32_of("num_splits", num_splits);
  if (lse.has_value()) {
    check_device("lse", lse.value(), out.device());
    check_dtype("lse", lse.value(), FLOAT32);
    check_shape("lse", lse.value(), {out.size(0), out.size(1), out.size(2)});
    check_contiguous("lse", lse.value());
    p.lse = static_cast<float*>(data_of(lse.value()));
  }
  return p;
}

// Which scores count how; params.h says what each means.
struct ScoreOptions {
  double scale;
  bool causal;
  int64_t window;  // -1: off
  double softcap;  // 0: off
  const Optional<TensorView>& mask;
};

// A mask [batch, num_qo_heads, qo_len, kv_len] of one byte an element; broadcast axes have stride 0.
inline void set_mask(AttentionParams& p, const TensorView& mask, const TensorView& q, int64_t qo_len, int64_t kv_len) {
  check_device("mask", mask, q.device());
  if (mask.dtype().bits != 8 || mask.dtype().lanes != 1) {
    TVM_FFI_THROW(TypeError) << "mask has dtype " << dtype_text(mask.dtype()) << ", accepted is bool";
  }
  check_shape("mask", mask, {p.batch, p.num_qo_heads, qo_len, kv_len});
  if (mask.size(3) > 1 && mask.stride(3) != 1) {
    TVM_FFI_THROW(ValueError) << "mask has last stride " << mask.stride(3) << ", accepted is 1";
  }
  p.mask = static_cast<const uint8_t*>(data_of(mask));
  p.mask_stride = {mask.stride(0), mask.stride(1), mask.stride(2)};
}

// After q, k and v; qo_len and kv_len are the mask's.
inline void set_options(AttentionParams& p, const ScoreOptions& options, const TensorView& q, int64_t qo_len,
                        int64_t kv_len) {
  if (options.window < -1) {
    TVM_FFI_THROW(ValueError) << "window is " << options.window << ", accepted is 0 or more, or -1 for none";
  }
  // 0 is a scale; others must leave fp32 its precision, beside any soft-cap too
  const double size = std::abs(options.scale);
  if (size != 0.0 && !(size >= LEAST_SCALE && size <= LARGEST_SCALE)) {
    TVM_FFI_THROW(ValueError) << "scale is " << options.scale << ", accepted is 0, or " << LEAST_SCALE << " to "
                              << LARGEST_SCALE << " with either sign";
  }
  if (!(options.softcap >= 0.0)) {
    TVM_FFI_THROW(ValueError) << "softcap is " << options.softcap << ", accepted is more than 0, or 0 for none";
  }
  p.scale_log2 = static_cast<float>(options.scale * LOG2_E);
  if (options.softcap > 0.0 && options.scale != 0.0) {  // capped or not, scores scaled by 0 are 0
    p.softcap = static_cast<float>(options.softcap / options.scale);
    p.softcap_scale = static_cast<float>(2.0 * LOG2_E * options.scale / options.softcap);
  }
  p.causal = options.causal ? 1 : 0;
  p.window = static_cast<int32_t>(std::min<int64_t>(options.window, INT32_MAX / 2));
  if (options.mask.has_value()) set_mask(p, options.mask.value(), q, qo_len, kv_len);
}

inline const float* check_sinks(const Optional<TensorView>& sinks, const TensorView& q, int64_t num_qo_heads) {
  if (!sinks.has_value()) return nullptr;
  check_device("sinks", sinks.value(), q.device());
  check_dtype("sinks", sinks.value(), FLOAT32);
  check_shape("sinks", sinks.value(), {num_qo_heads});
  check_contiguous("sinks", sinks.value());
  return static_cast<const float*>(data_of(sinks.value()));
}

// The query's side of a decode call.
inline DecodeParams query_params(const TensorView& q) {
  check_rank("q", q, 4, "[batch, qo_len, num_qo_heads, head_dim]");
  check_on_backend(q);
  check_float16("q", q);
  DecodeParams p = {};
  p.dtype = dtype_code(q);
  p.head_dim = int32_of("head_dim", q.size(3));
  p.q = data_of(q);
  p.q_stride = row_strides("q", q);
  p.batch = int32_of("batch", q.size(0));
  p.qo_len = int32_of("qo_len", q.size(1));
  p.num_qo_heads = int32_of("num_qo_heads", q.size(2));
  return p;
}

// K and V of one shape, which the caller has checked for k: rows of q's dtype, head_dim last, num_kv_heads before it.
inline void set_kv(AttentionParams& p, const char* k_name, const TensorView& k, const char* v_name, const TensorView& v,
                   const TensorView& q) {
  check_same_shape(v_name, v, k);
  for (const auto& [name, tensor] : {std::pair<const char*, const TensorView&>{k_name, k}, {v_name, v}}) {
    check_dtype(name, tensor, q.dtype());
    check_device(name, tensor, q.device());
  }
  p.k = data_of(k);
  p.v = data_of(v);
  p.k_stride = row_strides(k_name, k);
  p.v_stride = row_strides(v_name, v);
  p.num_kv_heads = int32_of("num_kv_heads", k.size(k.ndim() - 2));
  p.group = group_of(p);
}

inline constexpr int64_t LONGEST = int64_t{1} << 30;  // keys; what flags.yaml accepts

// Ids that live on the device are not read; on the CPU those of pages that hold keys that a query may see are checked.
// After set_pages and set_options; qo_indptr is nullptr where every sequence has p.qo_len queries.
inline void check_page_ids(const AttentionParams& p, const int32_t* qo_indptr, const char* k_name, DLDevice device) {
  if (device.device_type != kDLCPU || p.page_size == 0) return;
  for (int64_t b = 0; b < p.batch; ++b) {
    const int qo_len = qo_indptr == nullptr ? p.qo_len : qo_indptr[b + 1] - qo_indptr[b];
    const KvRange keys = visible_range(p, qo_len, p.kv_lens[b]);
    for (int64_t entry = keys.begin / p.page_size; entry * p.page_size < keys.end; ++entry) {
      const int32_t page = p.page_table[b * p.page_table_stride + entry];
      if (p.num_pages == 0) {
        TVM_FFI_THROW(ValueError) << k_name << " has 0 pages, accepted is 1 or more where a sequence has keys";
      }
      if (page < 0 || page >= p.num_pages) {
        TVM_FFI_THROW(ValueError) << "page_table[" << b << ", " << entry << "] is " << page << ", accepted is 0 to "
                                  << p.num_pages - 1 << ", the pages of " << k_name;
      }
    }
  }
}

// K and V in pages [num_pages, page_size, num_kv_heads, head_dim], and where the pages of each sequence are. Sets
// kv_len to the keys that the table has room for.
inline void set_pages(AttentionParams& p, const char* k_name, const TensorView& k, const char* v_name,
                      const TensorView& v, const TensorView& page_table, const TensorView& kv_lens,
                      const TensorView& q) {
  check_rank(k_name, k, 4, "[num_pages, page_size, num_kv_heads, head_dim]");
  check_shape(k_name, k, {k.size(0), k.size(1), k.size(2), p.head_dim});
  set_kv(p, k_name, k, v_name, v, q);
  check_rank("page_table", page_table, 2, "[batch, max_pages]");
  check_shape("page_table", page_table, {p.batch, page_table.size(1)});
  check_dtype("page_table", page_table, INT32);
  check_device("page_table", page_table, q.device());
  if (page_table.size(1) > 1 && page_table.stride(1) != 1) {
    TVM_FFI_THROW(ValueError) << "page_table has last stride " << page_table.stride(1) << ", accepted is 1";
  }
  p.num_pages = int32_of("num_pages", k.size(0));
  p.page_size = int32_of("page_size", k.size(1));
  p.page_table = static_cast<const int32_t*>(data_of(page_table));
  p.page_table_stride = page_table.stride(0);
  p.kv_len = int32_of("kv_len", std::min(page_table.size(1) * k.size(1), LONGEST));
  check_kv_lens(kv_lens, p.batch, p.kv_len, "the keys that page_table has room for", q.device());
  p.kv_lens = static_cast<const int32_t*>(data_of(kv_lens));
}

// Where a call's results go.
struct DecodeOutputs {
  const TensorView& out;
  const Optional<TensorView>& lse;
  const TensorView& part_acc;
  const TensorView& part_max;
  const TensorView& part_sum;
};

// Runs a variant and, behind it, the combine variant. part_max's last size is num_splits.
inline void run_decode(const char* family, int64_t variant, int64_t combine_variant, DecodeParams& p,
                       const TensorView& q, const DecodeOutputs& outputs, const Optional<TensorView>& sinks) {
  check_shape("out", outputs.out, {q.size(0), q.size(1), q.size(2), q.size(3)});
  check_dtype("out", outputs.out, q.dtype());
  check_device("out", outputs.out, q.device());
  p.partials = check_partials(outputs.part_acc, outputs.part_max, outputs.part_sum, q);
  p.num_splits = int32_of("num_splits", outputs.part_max.size(3));
  CombineParams combine = combine_params(p.partials, p.num_splits, outputs.out, outputs.lse);
  combine.dependent = 1;
  combine.sinks = check_sinks(sinks, q, p.num_qo_heads);
  if (p.batch == 0) return;

  const Variant& decode_entry = variant_for(family, variant);
  const Variant& combine_entry = variant_for("combine", combine_variant);
  const LaunchContext context(q.device());
  raise_if_failed(decode_entry.launcher(&p, context.stream()));
  raise_if_failed(combine_entry.launcher(&combine, context.stream()));
}

}  // namespace spark::bindings
