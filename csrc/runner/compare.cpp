// Every row of the output against its own limit, as docs/testing.md says.
#include "runner/compare.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

namespace spark::runner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <typename T>
T load(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

double fp16_value(uint16_t bits) {
  const double sign = (bits & 0x8000u) != 0 ? -1 : 1;
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  if (exponent == 31) return mantissa != 0 ? std::nan("") : sign * kInfinity;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

double value_of(ElementType type, const char* bytes) {
  switch (type) {
    case ElementType::bf16: {
      const uint32_t bits = static_cast<uint32_t>(load<uint16_t>(bytes)) << 16;
      return load<float>(reinterpret_cast<const char*>(&bits));
    }
    case ElementType::fp16:
      return fp16_value(load<uint16_t>(bytes));
    case ElementType::f32:
      return load<float>(bytes);
    case ElementType::f64:
      return load<double>(bytes);
    case ElementType::i32:
      return load<int32_t>(bytes);
    case ElementType::u8:
      return load<uint8_t>(bytes);
  }
  return std::nan("");
}

// Where it is NaN, or one of two is infinite, the error is infinite; equal values, infinite ones too, differ by 0.
double absolute_error(double got, double expected) {
  if (got == expected) return 0;
  const double error = std::fabs(got - expected);
  return std::isnan(error) ? kInfinity : error;
}

// 0 of 0 is 0, more than 0 of 0 infinite, NaN infinite.
double relative(double error, double allowed) {
  if (error == 0) return 0;
  const double ratio = error / allowed;
  return std::isnan(ratio) ? kInfinity : ratio;
}

int64_t offset_of(const TensorEntry& tensor, const Shape& index) {
  int64_t offset = 0;
  for (size_t i = 0; i < index.size(); ++i) offset += index[i] * tensor.strides[i];
  return offset;
}

Shape index_of(int64_t position, const Shape& shape) {
  Shape index(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    index[i] = position % shape[i];
    position /= shape[i];
  }
  return index;
}

std::string number(const char* format, double value) {
  if (std::isnan(value)) return "nan";  // without the sign that printf shows
  char text[40];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// Of one rule the place that is worst relative to what is allowed.
struct Worst {
  const char* rule;
  double ratio = 0;
  double error = 0, allowed = 0;
  double got = 0, expected = 0;
  Shape position = {};

  void take(double error_here, double allowed_here, double got_here, double expected_here, const Shape& place) {
    const double here = relative(error_here, allowed_here);
    if (!(here > ratio)) return;
    *this = {rule, here, error_here, allowed_here, got_here, expected_here, place};
  }
};

std::string describe(const char* what, const Worst& worst, size_t rank) {
  // A packed (ragged) tensor has one axis for batch and query.
  static const char* const kPadded[] = {"batch", "qo", "head", "dim"};
  static const char* const kPacked[] = {"token", "head", "dim"};
  const char* const* names = rank == 4 ? kPadded : kPacked;
  std::string text = std::string(what) + " at ";
  for (size_t i = 0; i < worst.position.size(); ++i) {
    text += std::string(i ? ", " : "") + names[i] + " " + std::to_string(worst.position[i]);
  }
  return text + ": got " + number("%.7g", worst.got) + ", expected " + number("%.7g", worst.expected) + "; " +
         worst.rule + " " + number("%.3g", worst.error) + ", allowed " + number("%.3g", worst.allowed);
}

const Output& output_of(Call& call, const char* name) {
  for (const Output& output : call.outputs()) {
    if (output.entry().name == name) return output;
  }
  reject("there is no output '%s' to compare", name);
}

const TensorEntry& expected_of(const Call& call, const char* name, const Shape& shape) {
  const TensorEntry* tensor = find_tensor(call.file().expected, name);
  if (tensor == nullptr) reject("the file has no expected '%s'", name);
  if (tensor->type != ElementType::f64 || tensor->shape != shape) {
    reject("expected '%s' is not f64 of the output's shape", name);
  }
  return *tensor;
}

double at(const Call& call, const TensorEntry& tensor, const Shape& index) {
  const int64_t offset = offset_of(tensor, index) * static_cast<int64_t>(size_of(tensor.type));
  return value_of(tensor.type, call.file().bytes_of(tensor) + offset);
}

double at(const Output& output, const Shape& index) {
  return value_of(output.entry().type, output.fetched(offset_of(output.entry(), index)));
}

// Both rules of one row of out; `row` has room for the last index.
void judge_row(const Call& call, const Output& out, const TensorEntry& expected, double allowed, double rel_l2,
               Shape row, Worst& by_error, Worst& by_l2) {
  const int64_t dims = expected.shape.back();
  double largest = -1, error_squares = 0, squares = 0;
  int64_t largest_at = 0;
  for (int64_t dim = 0; dim < dims; ++dim) {
    row.back() = dim;
    const double value = at(call, expected, row);
    const double error = absolute_error(at(out, row), value);
    error_squares += error * error;
    squares += value * value;
    if (error > largest) {
      largest = error;
      largest_at = dim;
    }
  }
  row.back() = largest_at;
  const double got = at(out, row), wanted = at(call, expected, row);
  by_error.take(largest, allowed, got, wanted, row);
  by_l2.take(relative(std::sqrt(error_squares), std::sqrt(squares)), rel_l2, got, wanted, row);
}

}  // namespace

Verdict judge_attention(Call& call) {
  const double rel_l2 = call.real("rel_l2"), lse_error = call.real("lse_error");
  const Output& out = output_of(call, "out");
  const Shape& shape = out.entry().shape;
  Shape rows = shape;
  rows.pop_back();
  const TensorEntry& expected = expected_of(call, "out", shape);
  const TensorEntry& allowed = expected_of(call, "allowed", rows);
  Worst by_error{"error"}, by_l2{"relative L2 error"}, by_lse{"lse error"};
  const int64_t num_rows = out.entry().count() == 0 ? 0 : out.entry().count() / shape.back();
  for (int64_t i = 0; i < num_rows; ++i) {
    Shape row = index_of(i, rows);
    const double limit = at(call, allowed, row);
    row.push_back(0);
    judge_row(call, out, expected, limit, rel_l2, std::move(row), by_error, by_l2);
  }
  if (find_tensor(call.file().outputs, "lse") != nullptr) {
    const Output& lse = output_of(call, "lse");
    const TensorEntry& expected_lse = expected_of(call, "lse", rows);
    for (int64_t i = 0; i < num_rows; ++i) {
      const Shape row = index_of(i, rows);
      const double got = at(lse, row), wanted = at(call, expected_lse, row);
      by_lse.take(absolute_error(got, wanted), lse_error, got, wanted, row);
    }
  }
  const Worst* worst = &by_error;
  if (by_l2.ratio > worst->ratio) worst = &by_l2;
  if (by_lse.ratio > worst->ratio) worst = &by_lse;
  if (worst->ratio <= 1) return {worst->ratio, {}};
  return {worst->ratio, describe(worst == &by_lse ? "lse" : "out", *worst, shape.size())};
}

Verdict judge_checksum(Call& call) {
  const Output& output = output_of(call, "checksum");
  const TensorEntry* expected = find_tensor(call.file().expected, "checksum");
  if (expected == nullptr || expected->type != ElementType::i32 || expected->count() != 1) {
    reject("the file has no expected 'checksum', one i32");
  }
  const uint32_t wanted = load<uint32_t>(call.file().bytes_of(*expected));
  uint32_t got = 0;
  for (int64_t i = 0; i < output.entry().count(); ++i) got ^= load<uint32_t>(output.fetched(i));
  if (got == wanted) return {};
  char text[80];
  std::snprintf(text, sizeof text, "checksum: got %#010x, expected %#010x", got, wanted);
  return {kInfinity, text};
}

}  // namespace spark::runner
