// From a case's tensors to the params that every attention kernel reads, as bindings/ does it for a library's tensors.
#include "runner/attention_call.h"

#include "attention/geometry.h"
#include "common/dtype.h"

namespace spark::runner {
namespace {

// Wrong lengths would lead out of the tensors.
void check_lengths(const Call& call, const TensorEntry& kv_lens, int64_t longest) {
  check_contiguous(kv_lens);
  for (int64_t b = 0; b < kv_lens.shape[0]; ++b) {
    const int32_t length = call.int_at(kv_lens, {b});
    if (length < 0 || length > longest) {
      reject("kv_lens[%lld] is %d, accepted is 0 to %lld", static_cast<long long>(b), length,
             static_cast<long long>(longest));
    }
  }
}

}  // namespace

int32_t narrow(const char* name, int64_t value) {
  if (value > INT32_MAX) reject("%s is %lld, accepted is at most %d", name, static_cast<long long>(value), INT32_MAX);
  return static_cast<int32_t>(value);
}

ElementType element_type(const std::vector<TensorEntry>& tensors, const char* name) {
  const TensorEntry* tensor = find_tensor(tensors, name);
  if (tensor == nullptr) reject("the file has no '%s'", name);
  if (tensor->type != ElementType::bf16 && tensor->type != ElementType::fp16) {
    reject("'%s' has dtype %s, accepted are bf16 and fp16", name, name_of(tensor->type));
  }
  return tensor->type;
}

int32_t dtype_code(ElementType type) {
  return static_cast<int32_t>(type == ElementType::bf16 ? DType::bf16 : DType::fp16);
}

TensorStrides strides_of(const TensorEntry& tensor) {
  const Shape strides = row_strides(tensor);
  if (strides.size() == 2) return {0, strides[0], strides[1]};
  return {strides[0], strides[1], strides[2]};
}

const int32_t* ints(Call& call, const TensorEntry& tensor) {
  return static_cast<const int32_t*>(call.address(tensor));
}

void set_query(Call& call, AttentionParams& p) {
  const TensorEntry& q = call.input("q", element_type(call.file().inputs, "q"), {-1, -1, -1, -1});
  p.dtype = dtype_code(q.type);
  p.batch = narrow("batch", q.shape[0]);
  p.qo_len = narrow("qo_len", q.shape[1]);
  p.num_qo_heads = narrow("num_qo_heads", q.shape[2]);
  p.head_dim = narrow("head_dim", q.shape[3]);
  p.q_stride = strides_of(q);
  p.q = call.address(q);
}

const TensorEntry& set_kv(Call& call, AttentionParams& p, const char* k_name, const char* v_name, Shape shape) {
  const ElementType type = element_type(call.file().inputs, "q");
  shape.push_back(p.head_dim);
  const TensorEntry& k = call.input(k_name, type, shape);
  const TensorEntry& v = call.input(v_name, type, k.shape);
  p.num_kv_heads = narrow("num_kv_heads", k.shape[k.shape.size() - 2]);
  p.group = group_of(p);
  p.k_stride = strides_of(k);
  p.v_stride = strides_of(v);
  p.k = call.address(k);
  p.v = call.address(v);
  return k;
}

Pages set_pages(Call& call, AttentionParams& p, const char* k_name, const char* v_name) {
  const TensorEntry& pages = set_kv(call, p, k_name, v_name, {-1, -1, -1});
  p.num_pages = narrow("num_pages", pages.shape[0]);
  p.page_size = narrow("page_size", pages.shape[1]);
  if (p.page_size < 1) reject("page_size is 0, accepted is 1 or more");
  const TensorEntry& table = call.input("page_table", ElementType::i32, {p.batch, -1});
  const TensorEntry& kv_lens = call.input("kv_lens", ElementType::i32, {p.batch});
  if (table.shape[1] > 1 && table.strides[1] != 1) reject("page_table's last stride is not 1");
  p.kv_len = narrow("kv_len", table.shape[1] * p.page_size);
  check_lengths(call, kv_lens, p.kv_len);
  p.page_table_stride = table.strides[0];
  p.page_table = ints(call, table);
  p.kv_lens = ints(call, kv_lens);
  return {table, kv_lens};
}

void check_pages(const Call& call, const AttentionParams& p, const Pages& pages, const TensorEntry* qo_indptr) {
  for (int64_t b = 0; b < p.batch; ++b) {
    const int32_t qo_len =
        qo_indptr == nullptr ? p.qo_len : call.int_at(*qo_indptr, {b + 1}) - call.int_at(*qo_indptr, {b});
    const KvRange keys = visible_range(p, qo_len, call.int_at(pages.kv_lens, {b}));
    for (int64_t entry = keys.begin / p.page_size; entry * p.page_size < keys.end; ++entry) {
      const int32_t page = call.int_at(pages.table, {b, entry});
      if (page < 0 || page >= p.num_pages) {
        reject("page_table[%lld, %lld] is %d, accepted is 0 to %d", static_cast<long long>(b),
               static_cast<long long>(entry), page, p.num_pages - 1);
      }
    }
  }
}

void set_kv_lens(Call& call, AttentionParams& p) {
  const TensorEntry* kv_lens = call.optional_input("kv_lens", ElementType::i32, {p.batch});
  if (kv_lens == nullptr) return;
  check_lengths(call, *kv_lens, p.kv_len);
  p.kv_lens = ints(call, *kv_lens);
}

void set_options(Call& call, AttentionParams& p) {
  p.scale_log2 = static_cast<float>(call.real("scale_log2"));
  p.softcap = static_cast<float>(call.real_or("softcap", 0));
  p.softcap_scale = static_cast<float>(call.real_or("softcap_scale", 0));
  p.causal = static_cast<int32_t>(call.integer_or("causal", 0, 0, 1));
  p.window = static_cast<int32_t>(call.integer_or("window", -1, -1, INT32_MAX / 2));
  const Shape shape = {p.batch, p.num_qo_heads, p.qo_len, p.kv_len};
  if (const TensorEntry* mask = call.optional_input("mask", ElementType::u8, shape)) {
    if (mask->shape[3] > 1 && mask->strides[3] != 1) reject("mask's last stride is not 1");
    p.mask = static_cast<const uint8_t*>(call.address(*mask));
    p.mask_stride = {mask->strides[0], mask->strides[1], mask->strides[2]};
  }
}

const float* sinks_of(Call& call, int64_t num_qo_heads) {
  const TensorEntry* sinks = call.optional_input("sinks", ElementType::f32, {num_qo_heads});
  if (sinks == nullptr) return nullptr;
  check_contiguous(*sinks);
  return static_cast<const float*>(call.address(*sinks));
}

}  // namespace spark::runner
