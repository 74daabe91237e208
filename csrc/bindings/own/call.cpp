// call: a launcher of a kernel of the user's own, with whatever arguments Python gives it.
#include <tvm/ffi/function.h>

#include <vector>

#include "bindings/tensors.h"
#include "bindings/variants.h"
#include "own/arguments.h"

namespace spark::bindings {
namespace {

using own::Argument;
using own::Kind;

const char* kind_of(uint8_t code) {
  switch (code) {
    case kDLBfloat:
      return "bfloat";
    case kDLFloat:
      return "float";
    case kDLInt:
      return "int";
    case kDLUInt:
      return "uint";
    default:
      return "type";
  }
}

Argument from_tensor(int position, const TensorView& tensor) {
  if (tensor.device().device_type != SPARK_DEVICE_TYPE && tensor.device().device_type != kDLCUDAManaged) {
    TVM_FFI_THROW(ValueError) << "argument " << position << " is on device type " << tensor.device().device_type
                              << ", accepted is " << SPARK_DEVICE_TYPE;
  }
  if (tensor.ndim() > own::MAX_RANK) {
    TVM_FFI_THROW(ValueError) << "argument " << position << " has rank " << tensor.ndim() << ", accepted is at most "
                              << own::MAX_RANK;
  }
  Argument argument = {};
  argument.kind = Kind::tensor;
  argument.data = data_of(tensor);
  argument.rank = tensor.ndim();
  argument.contiguous = tensor.IsContiguous();
  for (int axis = 0; axis < argument.rank; ++axis) argument.shape[axis] = tensor.size(axis);
  if (tensor.dtype().code == kDLBool) {
    std::snprintf(argument.dtype, sizeof(argument.dtype), "bool");
  } else {
    std::snprintf(argument.dtype, sizeof(argument.dtype), "%s%d", kind_of(tensor.dtype().code), tensor.dtype().bits);
  }
  return argument;
}

Argument from_any(int position, const tvm::ffi::AnyView& value) {
  Argument argument = {};
  switch (value.type_index()) {
    case tvm::ffi::TypeIndex::kTVMFFINone:
      return argument;
    case tvm::ffi::TypeIndex::kTVMFFIBool:
      argument.kind = Kind::boolean;
      argument.integer = value.cast<bool>();
      return argument;
    case tvm::ffi::TypeIndex::kTVMFFIInt:
      argument.kind = Kind::integer;
      argument.integer = value.cast<int64_t>();
      return argument;
    case tvm::ffi::TypeIndex::kTVMFFIFloat:
      argument.kind = Kind::number;
      argument.number = value.cast<double>();
      return argument;
    default:
      break;
  }
  if (const auto tensor = value.try_cast<TensorView>()) return from_tensor(position, *tensor);
  TVM_FFI_THROW(TypeError) << "argument " << position << " is a " << value.GetTypeKey()
                           << ", accepted is a tensor, an int, a float, a bool or None";
}

// The device of the first tensor; every other tensor must be there too.
DLDevice device_of(const tvm::ffi::PackedArgs& args, int first) {
  for (int i = first; i < args.size(); ++i) {
    if (const auto tensor = args[i].try_cast<TensorView>()) return tensor->device();
  }
  return {SPARK_DEVICE_TYPE, 0};
}

// variant, then the launcher's own arguments.
void call(tvm::ffi::PackedArgs args, tvm::ffi::Any*) {
  if (args.size() == 0) TVM_FFI_THROW(TypeError) << "variant is missing";
  const Variant& entry = variant_for("own", args[0].cast<int64_t>());
  const DLDevice device = device_of(args, 1);
  std::vector<Argument> arguments;
  for (int i = 1; i < args.size(); ++i) {
    if (const auto tensor = args[i].try_cast<TensorView>()) {
      check_device(("argument " + std::to_string(i - 1)).c_str(), *tensor, device);
    }
    arguments.push_back(from_any(i - 1, args[i]));
  }
  const own::ArgumentList list{arguments.data(), static_cast<int32_t>(arguments.size())};
  const LaunchContext context(device);
  raise_if_failed(entry.launcher(&list, context.stream()));
}

}  // namespace

extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_call(void*, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  TVM_FFI_SAFE_CALL_BEGIN();
  call(tvm::ffi::PackedArgs(reinterpret_cast<const tvm::ffi::AnyView*>(args), count),
       reinterpret_cast<tvm::ffi::Any*>(result));
  TVM_FFI_SAFE_CALL_END();
}

}  // namespace spark::bindings
