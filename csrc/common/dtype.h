// The element types that kernels are compiled for, as params structs and bindings name them.
#pragma once

#include "common/integers.h"

namespace spark {

enum class DType : int32_t { bf16 = 0, fp16 = 1 };

}  // namespace spark
