// The variants of this library, as the bindings look them up.
#pragma once

#include <tvm/ffi/error.h>

#include <cstring>

#include "common/variant.h"

namespace spark::bindings {

inline const Variant& variant_for(const char* family, int64_t index) {
  const Variant* variant = index < 0 ? nullptr : find_variant(static_cast<size_t>(index));
  if (variant == nullptr) {
    TVM_FFI_THROW(IndexError) << "variant " << index << " of family " << family << ", accepted is 0 to "
                              << static_cast<int64_t>(variant_count()) - 1;
  }
  if (std::strcmp(variant->family, family) != 0) {
    TVM_FFI_THROW(ValueError) << "variant " << index << " (" << variant->name << ") is of family " << variant->family
                              << ", accepted here is family " << family;
  }
  return *variant;
}

}  // namespace spark::bindings
