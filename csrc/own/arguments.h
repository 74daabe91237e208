// The arguments of a call from Python, as the launcher of a kernel of your own reads them: one after the other, each
// with a name for messages, a type and a shape. The first that does not fit is what finish() returns.
//   own::Arguments args(params);
//   const own::Tensor x = args.tensor<bf16>("x", {own::ANY, own::ANY});  // [rows, cols]
//   const float eps = static_cast<float>(args.number("eps"));
//   if (const Status read = args.finish(); read.code != STATUS_OK) return read;
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>
#include <initializer_list>

#include "common/integers.h"
#include "common/status.h"

namespace spark::own {

constexpr int MAX_RANK = 8;
constexpr int64_t ANY = -1;  // in a shape: every size

enum class Kind { none, boolean, integer, number, tensor };

// As it came; of a tensor `data` and what follows it.
struct Argument {
  Kind kind;
  int64_t integer;
  double number;
  void* data;
  char dtype[16];  // as Python spells it: float32, bfloat16, int64
  int32_t rank;
  bool contiguous;
  int64_t shape[MAX_RANK];
};

struct ArgumentList {
  const Argument* arguments;
  int32_t count;
};

template <typename T>
struct DTypeName {
  static_assert(sizeof(T) == 0, "a tensor holds float, double, __half, __nv_bfloat16, bool or (u)int8_t to (u)int64_t");
};
#define SPARK_OWN_DTYPE(type, name)            \
  template <>                                  \
  struct DTypeName<type> {                     \
    static constexpr const char* value = name; \
  }
SPARK_OWN_DTYPE(float, "float32");
SPARK_OWN_DTYPE(double, "float64");
SPARK_OWN_DTYPE(__half, "float16");
SPARK_OWN_DTYPE(__nv_bfloat16, "bfloat16");
SPARK_OWN_DTYPE(bool, "bool");
SPARK_OWN_DTYPE(int8_t, "int8");
SPARK_OWN_DTYPE(int16_t, "int16");
SPARK_OWN_DTYPE(int32_t, "int32");
SPARK_OWN_DTYPE(int64_t, "int64");
SPARK_OWN_DTYPE(uint8_t, "uint8");
SPARK_OWN_DTYPE(uint16_t, "uint16");
SPARK_OWN_DTYPE(uint32_t, "uint32");
SPARK_OWN_DTYPE(uint64_t, "uint64");
#undef SPARK_OWN_DTYPE

// A contiguous tensor. Its sizes are 0 where the argument did not fit.
template <typename T>
struct Tensor {
  T* data = nullptr;
  int64_t shape[MAX_RANK] = {};

  int64_t size(int axis) const { return shape[axis]; }
};

class Arguments {
 public:
  explicit Arguments(const void* params) : list_(*static_cast<const ArgumentList*>(params)) {}

  // The next argument: a contiguous tensor of T with this shape, ANY standing for every size.
  template <typename T>
  Tensor<T> tensor(const char* name, std::initializer_list<int64_t> shape) {
    Tensor<T> result;
    const Argument* argument = next(name, Kind::tensor, "a tensor");
    if (argument == nullptr) return result;
    if (std::strcmp(argument->dtype, DTypeName<T>::value) != 0) {
      refuse(invalid_argument("%s has dtype %s, accepted is %s", name, argument->dtype, DTypeName<T>::value));
      return result;
    }
    if (argument->rank != static_cast<int32_t>(shape.size())) {
      refuse(invalid_argument("%s has rank %d, accepted is %d", name, argument->rank, static_cast<int>(shape.size())));
      return result;
    }
    int axis = 0;
    for (const int64_t size : shape) {
      if (size != ANY && argument->shape[axis] != size) {
        refuse(invalid_argument("%s has size %lld on axis %d, accepted is %lld", name,
                                static_cast<long long>(argument->shape[axis]), axis, static_cast<long long>(size)));
        return result;
      }
      ++axis;
    }
    if (!argument->contiguous) {
      refuse(invalid_argument("%s is not contiguous, accepted is a contiguous tensor", name));
      return result;
    }
    result.data = static_cast<T*>(argument->data);
    for (axis = 0; axis < argument->rank; ++axis) result.shape[axis] = argument->shape[axis];
    return result;
  }

  // The next argument: an int.
  int64_t integer(const char* name) {
    const Argument* argument = next(name, Kind::integer, "an int");
    return argument == nullptr ? 0 : argument->integer;
  }

  // The next argument: a float, or an int as one.
  double number(const char* name) {
    if (position_ < list_.count && list_.arguments[position_].kind == Kind::integer) {
      return static_cast<double>(list_.arguments[position_++].integer);
    }
    const Argument* argument = next(name, Kind::number, "a float");
    return argument == nullptr ? 0.0 : argument->number;
  }

  // The next argument: True or False.
  bool boolean(const char* name) {
    const Argument* argument = next(name, Kind::boolean, "True or False");
    return argument != nullptr && argument->integer != 0;
  }

  // What did not fit, or that there are more arguments than were read.
  Status finish() const {
    if (status_.code == STATUS_OK && position_ < list_.count) {
      return invalid_argument("%d arguments, accepted are %d", list_.count, position_);
    }
    return status_;
  }

 private:
  // nullptr where there is none, or one of another kind.
  const Argument* next(const char* name, Kind kind, const char* accepted) {
    if (position_ >= list_.count) {
      refuse(invalid_argument("%s is missing: %d arguments were given", name, list_.count));
      return nullptr;
    }
    const Argument& argument = list_.arguments[position_++];
    if (argument.kind == kind) return &argument;
    refuse(invalid_argument("%s is %s, accepted is %s", name, text_of(argument.kind), accepted));
    return nullptr;
  }

  static const char* text_of(Kind kind) {
    switch (kind) {
      case Kind::boolean:
        return "a bool";
      case Kind::integer:
        return "an int";
      case Kind::number:
        return "a float";
      case Kind::tensor:
        return "a tensor";
      default:
        return "None";
    }
  }

  void refuse(const Status& status) {
    if (status_.code == STATUS_OK) status_ = status;
  }

  const ArgumentList& list_;
  int32_t position_ = 0;
  Status status_ = ok();
};

}  // namespace spark::own
