// The table of variants in this library. A translation unit holds one variant and registers it when the library loads:
//   SPARK_REGISTER_VARIANT("decode", launch_decode);
#pragma once

#include <vector>

#include "common/integers.h"
#include "common/status.h"

namespace spark {

using Launcher = Status (*)(const void* params, void* stream);

struct Variant {
  const char* name;    // as the registry spells it: attn_decode_split_kv_mma.bf16.d128
  const char* family;  // says which params struct the launcher takes
  Launcher launcher;
  int32_t block_threads;
  size_t dynamic_smem;  // bytes
};

inline std::vector<Variant>& variant_table() {
  static std::vector<Variant> table;
  return table;
}

inline size_t variant_count() {
  return variant_table().size();
}

// nullptr when index is out of range.
inline const Variant* find_variant(size_t index) {
  return index < variant_table().size() ? &variant_table()[index] : nullptr;
}

struct VariantRegistration {
  explicit VariantRegistration(const Variant& variant) { variant_table().push_back(variant); }
};

}  // namespace spark

#define SPARK_STRINGIZE_TOKENS(...) #__VA_ARGS__
#define SPARK_STRINGIZE(...) SPARK_STRINGIZE_TOKENS(__VA_ARGS__)

// Needs SPARK_VARIANT, SPARK_BLOCK and SPARK_DYNAMIC_SMEM, which the build defines for each variant.
#define SPARK_REGISTER_VARIANT(family, launcher)                        \
  static const ::spark::VariantRegistration spark_variant_registration( \
      ::spark::Variant{SPARK_STRINGIZE(SPARK_VARIANT), family, launcher, SPARK_BLOCK, SPARK_DYNAMIC_SMEM})
