// Checks of tensors at the door: each failure is a typed Python error naming the argument, its value and what is
// accepted.
#pragma once

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/optional.h>
#include <tvm/ffi/string.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "attention/params.h"
#include "common/status.h"

#ifdef SPARK_EMULATOR
constexpr DLDeviceType SPARK_DEVICE_TYPE = kDLCPU;
#else
#include <tvm/ffi/extra/cuda/device_guard.h>
constexpr DLDeviceType SPARK_DEVICE_TYPE = kDLCUDA;
#endif

namespace spark::bindings {

using tvm::ffi::TensorView;

inline std::string shape_text(std::initializer_list<int64_t> shape) {
  std::ostringstream text;
  const char* separator = "[";
  for (int64_t size : shape) {
    text << separator << size;
    separator = ", ";
  }
  text << "]";
  return text.str();
}

inline std::string shape_text(const TensorView& tensor) {
  std::ostringstream text;
  text << "[";
  for (int i = 0; i < tensor.ndim(); ++i) text << (i ? ", " : "") << tensor.size(i);
  text << "]";
  return text.str();
}

inline std::string dtype_text(DLDataType dtype) {
  const char* kind = dtype.code == kDLBfloat  ? "bfloat"
                     : dtype.code == kDLFloat ? "float"
                     : dtype.code == kDLInt   ? "int"
                                              : "type ";
  return kind + std::to_string(dtype.bits);
}

inline bool same_dtype(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

constexpr DLDataType FLOAT32 = {kDLFloat, 32, 1};
constexpr DLDataType INT32 = {kDLInt, 32, 1};

inline void check_device(const char* name, const TensorView& tensor, DLDevice device) {
  if (tensor.device().device_type != device.device_type || tensor.device().device_id != device.device_id) {
    TVM_FFI_THROW(ValueError) << name << " is on device type " << tensor.device().device_type << " index "
                              << tensor.device().device_id << ", accepted is type " << device.device_type << " index "
                              << device.device_id;
  }
}

inline void check_dtype(const char* name, const TensorView& tensor, DLDataType dtype) {
  if (!same_dtype(tensor.dtype(), dtype)) {
    TVM_FFI_THROW(TypeError) << name << " has dtype " << dtype_text(tensor.dtype()) << ", accepted is "
                             << dtype_text(dtype);
  }
}

inline void check_shape(const char* name, const TensorView& tensor, std::initializer_list<int64_t> shape) {
  bool same = tensor.ndim() == static_cast<int>(shape.size());
  int i = 0;
  for (int64_t size : shape) same = same && tensor.size(i++) == size;
  if (!same) {
    TVM_FFI_THROW(ValueError) << name << " has shape " << shape_text(tensor) << ", accepted is " << shape_text(shape);
  }
}

inline void check_same_shape(const char* name, const TensorView& tensor, const TensorView& like) {
  bool same = tensor.ndim() == like.ndim();
  for (int i = 0; same && i < tensor.ndim(); ++i) same = tensor.size(i) == like.size(i);
  if (!same) {
    TVM_FFI_THROW(ValueError) << name << " has shape " << shape_text(tensor) << ", accepted is " << shape_text(like);
  }
}

inline void check_rank(const char* name, const TensorView& tensor, int rank, const char* axes) {
  if (tensor.ndim() != rank) {
    TVM_FFI_THROW(ValueError) << name << " has shape " << shape_text(tensor) << ", accepted is rank " << rank << " "
                              << axes;
  }
}

inline void check_contiguous(const char* name, const TensorView& tensor) {
  if (!tensor.IsContiguous())
    TVM_FFI_THROW(ValueError) << name << " is not contiguous, accepted is a contiguous tensor";
}

inline void* data_of(const TensorView& tensor) {
  return static_cast<char*>(tensor.data_ptr()) + tensor.byte_offset();
}

inline void check_alignment(const char* name, const TensorView& tensor) {
  const uintptr_t past = reinterpret_cast<uintptr_t>(data_of(tensor)) % 16;
  if (past != 0) {
    TVM_FFI_THROW(ValueError) << name << " starts " << past
                              << " bytes past a multiple of 16, accepted is a multiple of 16 bytes";
  }
}

// The strides of every axis but the last of a tensor of AXES + 1 axes, whose rows are contiguous and start at multiples
// of 16 bytes. The stride of an axis of size 1 is never used and may be anything.
template <int AXES>
inline std::array<int64_t, AXES> outer_strides(const char* name, const TensorView& tensor) {
  if (tensor.stride(AXES) != 1 && tensor.size(AXES) != 1) {
    TVM_FFI_THROW(ValueError) << name << " has last stride " << tensor.stride(AXES) << ", accepted is 1";
  }
  const int64_t element_bytes = tensor.dtype().bits / 8;
  std::array<int64_t, AXES> stride;
  for (int i = 0; i < AXES; ++i) {
    stride[i] = tensor.size(i) > 1 ? tensor.stride(i) : 0;
    if (stride[i] * element_bytes % 16 != 0) {
      TVM_FFI_THROW(ValueError) << name << " has stride " << stride[i] << " on axis " << i
                                << ", accepted is a multiple of " << 16 / element_bytes << " elements (16 bytes)";
    }
  }
  check_alignment(name, tensor);
  return stride;
}

// Those of a [batch, len, heads, head_dim] tensor, or of a packed [len, heads, head_dim] one, whose batch stride is 0.
inline TensorStrides row_strides(const char* name, const TensorView& tensor) {
  if (tensor.ndim() == 3) {
    const std::array<int64_t, 2> packed = outer_strides<2>(name, tensor);
    return {0, packed[0], packed[1]};
  }
  const std::array<int64_t, 3> stride = outer_strides<3>(name, tensor);
  return {stride[0], stride[1], stride[2]};
}

// What is written to must not hold two elements at one address.
inline void check_no_overlap(const char* name, const TensorView& tensor) {
  std::vector<std::pair<int64_t, int64_t>> axes;  // stride, size
  for (int i = 0; i < tensor.ndim(); ++i) {
    if (tensor.size(i) > 1) axes.emplace_back(tensor.stride(i), tensor.size(i));
  }
  std::sort(axes.begin(), axes.end());
  int64_t reach = 1;  // elements that the axes so far cover
  for (const auto& [stride, size] : axes) {
    if (stride < reach) {
      TVM_FFI_THROW(ValueError) << name << " has elements that share memory, accepted is a tensor without overlap";
    }
    reach = stride * (size - 1) + reach;
  }
}

inline int32_t int32_of(const char* name, int64_t value) {
  if (value > INT32_MAX) TVM_FFI_THROW(ValueError) << name << " is " << value << ", accepted is at most " << INT32_MAX;
  return static_cast<int32_t>(value);
}

inline void raise_if_failed(const Status& status) {
  if (status.code == STATUS_OK) return;
  if (status.code == STATUS_INVALID_ARGUMENT) TVM_FFI_THROW(ValueError) << status.message;
  TVM_FFI_THROW(RuntimeError) << status.message;
}

// Makes the tensor's device current and gives the stream that the caller's framework works on.
class LaunchContext {
 public:
  explicit LaunchContext(DLDevice device)
#ifdef SPARK_EMULATOR
  {
    (void)device;
  }
  void* stream() const { return nullptr; }
#else
      : guard_(device.device_id), stream_(TVMFFIEnvGetStream(device.device_type, device.device_id)) {
  }
  void* stream() const { return stream_; }

 private:
  tvm::ffi::CUDADeviceGuard guard_;
  void* stream_;
#endif
};

}  // namespace spark::bindings
