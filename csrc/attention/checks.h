// Range checks of the launchers; the ranges themselves come from flags.yaml as SPARK_ACCEPTS_<NAME>_MIN and _MAX.
#pragma once

#include "common/integers.h"
#include "common/status.h"
#include "common/types.h"

namespace spark {

constexpr int64_t GRID_YZ_MAX = 65535;  // CUDA C++ Programming Guide, compute capabilities: grid y and z

inline Status check_range(const char* name, int64_t value, int64_t min, int64_t max) {
  if (value >= min && value <= max) return ok();
  return invalid_argument("%s is %lld, accepted is %lld to %lld", name, static_cast<long long>(value),
                          static_cast<long long>(min), static_cast<long long>(max));
}

// A variant is compiled for one dtype and one head_dim.
template <typename T, int HEAD_DIM>
Status check_variant(int32_t dtype, int32_t head_dim) {
  if (dtype == static_cast<int32_t>(dtype_of<T>) && head_dim == HEAD_DIM) return ok();
  return invalid_argument("dtype %s and head_dim %d, this variant accepts dtype %s and head_dim %d",
                          dtype == static_cast<int32_t>(DType::bf16) ? "bf16" : "fp16", head_dim,
                          dtype_of<T> == DType::bf16 ? "bf16" : "fp16", HEAD_DIM);
}

}  // namespace spark
