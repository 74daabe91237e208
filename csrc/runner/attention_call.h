// What the attention families share: a case's query, keys, options and results, checked and put into params.
#pragma once

#include <string>
#include <vector>

#include "attention/params.h"
#include "runner/call.h"

namespace spark::runner {

// WrongInput above what the params' 32 bits hold.
int32_t narrow(const char* name, int64_t value);

// The 16-bit type of a call, as its tensor `name` has it; WrongInput for any other type.
ElementType element_type(const std::vector<TensorEntry>& tensors, const char* name);
// As params.h wants it.
int32_t dtype_code(ElementType type);

// Of a padded tensor, or of a packed one [len, heads, head_dim], whose batch stride is 0.
TensorStrides strides_of(const TensorEntry& tensor);

const int32_t* ints(Call& call, const TensorEntry& tensor);

// q [batch, qo_len, num_qo_heads, head_dim].
void set_query(Call& call, AttentionParams& p);

// K and V of one `shape` before head_dim, in which -1 is any; after the query.
const TensorEntry& set_kv(Call& call, AttentionParams& p, const char* k_name, const char* v_name, Shape shape);

// K and V in pages, the table and the lengths, which are checked.
struct Pages {
  const TensorEntry& table;
  const TensorEntry& kv_lens;
};
Pages set_pages(Call& call, AttentionParams& p, const char* k_name, const char* v_name);
// Entries that no query sees may hold anything. After set_options; without qo_indptr every sequence has p.qo_len
// queries.
void check_pages(const Call& call, const AttentionParams& p, const Pages& pages, const TensorEntry* qo_indptr);

// Optional kv_lens of contiguous K and V.
void set_kv_lens(Call& call, AttentionParams& p);

// Scale, causal, window, soft-cap and mask; after the shapes.
void set_options(Call& call, AttentionParams& p);

// Null where there are none.
const float* sinks_of(Call& call, int64_t num_qo_heads);

// out of `shape`, and lse if it is asked for.
template <typename Params>
void set_results(Call& call, Params& p, ElementType type, const Shape& shape) {
  Output& out = call.output("out", type, shape);
  p.out = out.address();
  p.out_stride = strides_of(out.entry());
  if (Output* lse = call.optional_output("lse", ElementType::f32, Shape(shape.begin(), shape.end() - 1))) {
    check_contiguous(lse->entry());
    p.lse = static_cast<float*>(lse->address());
  }
}

}  // namespace spark::runner
