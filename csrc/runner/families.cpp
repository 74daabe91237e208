// From a case to the params of its family, as bindings/ does it for tensors.
#include "runner/families.h"

#include <cstring>

#include "attention/geometry.h"
#include "attention/params.h"
#include "bench/params.h"
#include "common/dtype.h"

namespace spark::runner {
namespace {

constexpr int64_t kGridLimit = 65535;

int32_t narrow(const char* name, int64_t value) {
  if (value > INT32_MAX) reject("%s is %lld, accepted is at most %d", name, static_cast<long long>(value), INT32_MAX);
  return static_cast<int32_t>(value);
}

// The 16-bit type of a call, as its tensor `name` has it.
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
  return {strides[0], strides[1], strides[2]};
}

const int32_t* ints(Call& call, const TensorEntry& tensor) {
  return static_cast<const int32_t*>(call.address(tensor));
}

// Wrong lengths and pages would lead out of the tensors.
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

// Entries that no query sees may hold anything.
void check_pages(const Call& call, const AttentionParams& p, const TensorEntry& table, const TensorEntry& kv_lens) {
  for (int64_t b = 0; b < p.batch; ++b) {
    const KvRange keys = visible_range(p, p.qo_len, call.int_at(kv_lens, {b}));
    for (int64_t entry = keys.begin / p.page_size; entry * p.page_size < keys.end; ++entry) {
      const int32_t page = call.int_at(table, {b, entry});
      if (page < 0 || page >= p.num_pages) {
        reject("page_table[%lld, %lld] is %d, accepted is 0 to %d", static_cast<long long>(b),
               static_cast<long long>(entry), page, p.num_pages - 1);
      }
    }
  }
}

// The query's side of a padded call.
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

// After the shapes.
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

// K and V [first, any, num_kv_heads, head_dim], contiguous or pages.
const TensorEntry& set_kv(Call& call, AttentionParams& p, const char* k_name, const char* v_name, int64_t first) {
  const ElementType type = element_type(call.file().inputs, "q");
  const TensorEntry& k = call.input(k_name, type, {first, -1, -1, p.head_dim});
  const TensorEntry& v = call.input(v_name, type, k.shape);
  p.num_kv_heads = narrow("num_kv_heads", k.shape[2]);
  p.group = group_of(p);
  p.k_stride = strides_of(k);
  p.v_stride = strides_of(v);
  p.k = call.address(k);
  p.v = call.address(v);
  return k;
}

// out and lse of a padded call.
template <typename Params>
void set_results(Call& call, Params& p, ElementType type) {
  Output& out = call.output("out", type, {p.batch, p.qo_len, p.num_qo_heads, p.head_dim});
  p.out = out.address();
  p.out_stride = strides_of(out.entry());
  if (Output* lse = call.optional_output("lse", ElementType::f32, {p.batch, p.qo_len, p.num_qo_heads})) {
    check_contiguous(lse->entry());
    p.lse = static_cast<float*>(lse->address());
  }
}

// The splits, then the combine behind them.
void run_splits(Call& call, DecodeParams& p) {
  p.num_splits = static_cast<int32_t>(call.integer("num_splits", 1, kGridLimit));
  const Shape rows = {p.batch, p.qo_len, p.num_qo_heads, p.num_splits};
  Shape wide = rows;
  wide.push_back(p.head_dim);
  p.partials.acc = static_cast<float*>(call.workspace("part_acc", ElementType::f32, wide).address());
  p.partials.max = static_cast<float*>(call.workspace("part_max", ElementType::f32, rows).address());
  p.partials.sum = static_cast<float*>(call.workspace("part_sum", ElementType::f32, rows).address());
  CombineParams combine = {};
  combine.partials = p.partials;
  combine.dtype = p.dtype;
  combine.head_dim = p.head_dim;
  combine.batch = p.batch;
  combine.qo_len = p.qo_len;
  combine.num_qo_heads = p.num_qo_heads;
  combine.num_splits = p.num_splits;
  combine.dependent = 1;
  combine.sinks = sinks_of(call, p.num_qo_heads);
  set_results(call, combine, element_type(call.file().inputs, "q"));
  const Variant& combine_variant = call.variant_named("combine", "combine");
  call.launch(call.variant(), &p);
  call.launch(combine_variant, &combine);
}

void run_decode(Call& call) {
  DecodeParams p = {};
  set_query(call, p);
  p.kv_len = narrow("kv_len", set_kv(call, p, "k", "v", p.batch).shape[1]);
  set_options(call, p);
  if (const TensorEntry* kv_lens = call.optional_input("kv_lens", ElementType::i32, {p.batch})) {
    check_lengths(call, *kv_lens, p.kv_len);
    p.kv_lens = ints(call, *kv_lens);
  }
  run_splits(call, p);
}

void run_paged_decode(Call& call) {
  DecodeParams p = {};
  set_query(call, p);
  const TensorEntry& pages = set_kv(call, p, "k_pages", "v_pages", -1);
  p.num_pages = narrow("num_pages", pages.shape[0]);
  p.page_size = narrow("page_size", pages.shape[1]);
  if (p.page_size < 1) reject("page_size is 0, accepted is 1 or more");
  const TensorEntry& table = call.input("page_table", ElementType::i32, {p.batch, -1});
  const TensorEntry& kv_lens = call.input("kv_lens", ElementType::i32, {p.batch});
  if (table.shape[1] > 1 && table.strides[1] != 1) reject("page_table's last stride is not 1");
  p.kv_len = narrow("kv_len", table.shape[1] * p.page_size);
  check_lengths(call, kv_lens, p.kv_len);
  set_options(call, p);
  check_pages(call, p, table, kv_lens);
  p.page_table_stride = table.strides[0];
  p.page_table = ints(call, table);
  p.kv_lens = ints(call, kv_lens);
  run_splits(call, p);
}

void run_combine(Call& call) {
  const TensorEntry& acc = call.input("part_acc", ElementType::f32, {-1, -1, -1, -1, -1});
  const Shape rows(acc.shape.begin(), acc.shape.end() - 1);
  const TensorEntry& max = call.input("part_max", ElementType::f32, rows);
  const TensorEntry& sum = call.input("part_sum", ElementType::f32, rows);
  for (const TensorEntry* part : {&acc, &max, &sum}) check_contiguous(*part);
  if (acc.offset % 16 != 0) reject("part_acc starts at offset %zu, accepted is a multiple of 16", acc.offset);
  const auto parts = [&call](const TensorEntry& part) {  // the struct that decode writes has no const
    return static_cast<float*>(const_cast<void*>(call.address(part)));
  };
  const ElementType type = element_type(call.file().outputs, "out");
  CombineParams p = {};
  p.partials = {parts(acc), parts(max), parts(sum)};
  p.dtype = dtype_code(type);
  p.batch = narrow("batch", rows[0]);
  p.qo_len = narrow("qo_len", rows[1]);
  p.num_qo_heads = narrow("num_qo_heads", rows[2]);
  p.num_splits = narrow("num_splits", rows[3]);
  p.head_dim = narrow("head_dim", acc.shape[4]);
  p.sinks = sinks_of(call, p.num_qo_heads);
  set_results(call, p, type);
  call.launch(call.variant(), &p);
}

void run_merge_states(Call& call) {
  const ElementType type = element_type(call.file().inputs, "states");
  const TensorEntry& states = call.input("states", type, {-1, -1, -1, -1, -1});
  const TensorEntry& lse =
      call.input("states_lse", ElementType::f32, Shape(states.shape.begin(), states.shape.end() - 1));
  TensorEntry one_state = lse;
  one_state.shape[0] = 1;
  check_contiguous(one_state);
  const Shape strides = row_strides(states);
  StatesParams p = {};
  p.states = call.address(states);
  p.states_stride = strides[0];
  p.states_row_stride = {strides[1], strides[2], strides[3]};
  p.states_lse = static_cast<const float*>(call.address(lse));
  p.states_lse_stride = lse.shape[0] > 1 ? lse.strides[0] : 0;
  p.dtype = dtype_code(type);
  p.num_states = narrow("num_states", states.shape[0]);
  p.batch = narrow("batch", states.shape[1]);
  p.qo_len = narrow("qo_len", states.shape[2]);
  p.num_qo_heads = narrow("num_qo_heads", states.shape[3]);
  p.head_dim = narrow("head_dim", states.shape[4]);
  set_results(call, p, type);
  call.launch(call.variant(), &p);
}

void run_stream_read(Call& call) {
  const TensorEntry& data = call.input("data", ElementType::i32, {-1});
  check_contiguous(data);
  if (data.count() % 4 != 0 || data.offset % 16 != 0) reject("data is not whole words of 16 bytes");
  const TensorEntry* checksum = find_tensor(call.file().outputs, "checksum");
  if (checksum == nullptr) reject("the file has no output 'checksum'");
  StreamReadParams p = {};
  p.data = call.address(data);
  p.chunks = data.count() / 4;
  p.blocks = narrow("blocks", checksum->count());
  p.checksum = static_cast<uint32_t*>(call.output("checksum", ElementType::i32, {-1}).address());
  check_contiguous(*checksum);
  call.launch(call.variant(), &p);
}

constexpr Family kFamilies[] = {
    {"decode", run_decode, judge_attention},    {"paged_decode", run_paged_decode, judge_attention},
    {"combine", run_combine, judge_attention},  {"merge_states", run_merge_states, judge_attention},
    {"bench", run_stream_read, judge_checksum},
};

}  // namespace

const Family& family_named(const std::string& name) {
  for (const Family& family : kFamilies) {
    if (name == family.name) return family;
  }
  reject("this runner cannot call family '%s'", name.c_str());
}

}  // namespace spark::runner
