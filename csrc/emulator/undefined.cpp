// The calls that a compiler puts where behaviour is undefined, with -fsanitize=undefined,float-cast-overflow. No
// sanitizer library is linked: these functions take its place. Whether an object is of the class that it is used as
// (-fsanitize=vptr) is not looked at.
#include "emulator/undefined.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "emulator/block.h"
#include "emulator/settings.h"
#include "emulator/watch.h"

namespace spark::emulator {
namespace {

// Never destroyed: see settings.cpp.
struct HostFault {
  std::mutex mutex;
  std::string text;
};

HostFault& host_fault() {
  static auto* const instance = new HostFault;
  return *instance;
}

}  // namespace

std::string take_host_fault() {
  if (!kChecksUndefined) return {};
  const std::lock_guard lock(host_fault().mutex);
  return std::exchange(host_fault().text, {});
}

extern "C" int spark_emulator_host_failed(void) {
  const std::string text = take_host_fault();
  if (!text.empty()) note_error(text.c_str());
  return text.empty() ? 0 : 1;
}

}  // namespace spark::emulator

#if defined(SPARK_SANITIZE_UNDEFINED)

namespace spark::emulator {
namespace {

using Value = uintptr_t;

// What the compiler lays out for each kind of report.
struct Location {
  const char* file;
  uint32_t line;
  uint32_t column;
};

struct PlaceData {
  Location at;
};
struct TypeData {
  Location at;
  const TypeDescriptor& type;
};
struct TwoTypesData {
  Location at;
  const TypeDescriptor& first;
  const TypeDescriptor& second;
};
struct PointerData {
  Location at;
  const TypeDescriptor& type;
  uint8_t alignment_bits;
  uint8_t use;
};
struct ArgumentData {
  Location at;
  Location declared_at;
  int argument;
};
struct BuiltinData {
  Location at;
  uint8_t kind;
};

Site site_of(const Location& at) {
  return {at.file == nullptr ? "unknown source" : at.file, static_cast<int>(at.line)};
}

std::string on_host(const Location& at, const std::string& what) {
  return "host code at " + describe(site_of(at)) + ": undefined: " + what;
}

// In a kernel the block ends here; on the host the first report waits for a launch to fail.
void report(const Location& at, const std::string& what) {
  if (current_thread != nullptr) end_block(running_thread(), site_of(at), "undefined: " + what);
  const std::lock_guard lock(host_fault().mutex);
  if (host_fault().text.empty()) host_fault().text = on_host(at, what);
}

// Where the code after it does not exist.
[[noreturn]] void report_end(const Location& at, const std::string& what) {
  if (current_thread != nullptr) end_block(running_thread(), site_of(at), "undefined: " + what);
  std::fprintf(stderr, "error: %s\n", on_host(at, what).c_str());
  std::abort();
}

std::string kind_of(const TypeDescriptor& type) {
  return type.is_signed() ? "signed" : "unsigned";
}

void report_overflow(const TypeData& data, Value left, const char* sign, Value right) {
  report(data.at, kind_of(data.type) + " integer overflow: " + Operand{data.type, left}.text() + " " + sign + " " +
                      Operand{data.type, right}.text() + " does not fit " + data.type.name());
}

std::string division_fault(const TypeDescriptor& type, Value left, Value right) {
  const Operand divisor{type, right};
  const std::string division = Operand{type, left}.text() + " / " + divisor.text();
  if (divisor.is_negative()) return "signed integer overflow: " + division + " does not fit " + type.name();
  return "division by zero: " + division;
}

std::string shift_fault(const TwoTypesData& data, Value left, Value right) {
  const Operand shifted{data.first, left}, amount{data.second, right};
  const std::string name = data.first.name();
  if (amount.is_negative() || amount.value() >= data.first.bits()) {
    return "shift of " + name + " by " + amount.text() + ", accepted is 0 to " + std::to_string(data.first.bits() - 1);
  }
  if (shifted.is_negative()) return "left shift of " + shifted.text() + ", which is negative";
  return "left shift: " + shifted.text() + " << " + amount.text() + " does not fit " + name;
}

// In the order of the compilers' numbers.
const char* use_of(uint8_t use) {
  static const char* const uses[] = {"load of",        "store to",        "reference to", "member of",
                                     "member call on", "construction of", "downcast to",  "downcast to",
                                     "upcast of",      "upcast of",       "use of",       "dynamic use of"};
  return use < sizeof uses / sizeof *uses ? uses[use] : "use of";
}

std::string pointer_fault(const PointerData& data, Value pointer) {
  const std::string use = std::string(use_of(data.use)) + " " + data.type.name();
  const Value alignment = Value{1} << data.alignment_bits;
  if (pointer == 0) return use + " through a null pointer";
  if (pointer % alignment != 0) {
    return use + " at an address " + std::to_string(pointer % alignment) + " bytes past a multiple of " +
           std::to_string(alignment);
  }
  return use + " where the object has no room for it";
}

std::string arithmetic_fault(Value base, Value result) {
  if (base == 0) return "an offset from a null pointer";
  char text[96];
  std::snprintf(text, sizeof text, "pointer 0x%zx with an offset wraps around to 0x%zx", base, result);
  return text;
}

std::string cast_fault(const TwoTypesData& data, Value from) {
  return Operand{data.first, from}.text() + " does not fit " + data.second.name();
}

std::string builtin_fault(uint8_t kind) {
  return kind == 0   ? "__builtin_ctz of 0, which has no last bit"
         : kind == 1 ? "__builtin_clz of 0, which has no first bit"
                     : "__builtin_assume of what is false";
}

}  // namespace
}  // namespace spark::emulator

using namespace spark::emulator;

extern "C" {

void __ubsan_handle_add_overflow(TypeData* data, Value left, Value right) {
  report_overflow(*data, left, "+", right);
}
void __ubsan_handle_sub_overflow(TypeData* data, Value left, Value right) {
  report_overflow(*data, left, "-", right);
}
void __ubsan_handle_mul_overflow(TypeData* data, Value left, Value right) {
  report_overflow(*data, left, "*", right);
}
void __ubsan_handle_negate_overflow(TypeData* data, Value value) {
  report(data->at, kind_of(data->type) + " integer overflow: -(" + Operand{data->type, value}.text() +
                       ") does not fit " + data->type.name());
}
void __ubsan_handle_divrem_overflow(TypeData* data, Value left, Value right) {
  report(data->at, division_fault(data->type, left, right));
}
void __ubsan_handle_shift_out_of_bounds(TwoTypesData* data, Value left, Value right) {
  report(data->at, shift_fault(*data, left, right));
}
void __ubsan_handle_out_of_bounds(TwoTypesData* data, Value index) {
  report(data->at, "index " + Operand{data->second, index}.text() + " outside of " + data->first.name());
}
void __ubsan_handle_type_mismatch_v1(PointerData* data, Value pointer) {
  report(data->at, pointer_fault(*data, pointer));
}
void __ubsan_handle_load_invalid_value(TypeData* data, Value value) {
  report(data->at, "load of " + Operand{data->type, value}.text() + ", which is no value of " + data->type.name());
}
void __ubsan_handle_pointer_overflow(PlaceData* data, Value base, Value result) {
  report(data->at, arithmetic_fault(base, result));
}
void __ubsan_handle_float_cast_overflow(TwoTypesData* data, Value from) {
  report(data->at, cast_fault(*data, from));
}
void __ubsan_handle_builtin_unreachable(PlaceData* data) {
  report_end(data->at, "__builtin_unreachable() is reached");
}
void __ubsan_handle_missing_return(PlaceData* data) {
  report_end(data->at, "a function ends without the value that it returns");
}
void __ubsan_handle_vla_bound_not_positive(TypeData* data, Value bound) {
  report(data->at, "an array of " + Operand{data->type, bound}.text() + " elements, accepted is at least 1");
}
void __ubsan_handle_nonnull_arg(ArgumentData* data) {
  report(data->at, "argument " + std::to_string(data->argument) + " is null, which its function does not accept");
}
void __ubsan_handle_nonnull_return_v1(PlaceData*, Location* at) {
  report(*at, "a function returns null, which it declares never to do");
}
// Looked up by a hash of the object's class before the call; of -fsanitize=vptr.
Value __ubsan_vptr_type_cache[128];
void __ubsan_handle_dynamic_type_cache_miss(void*, Value, Value) {}
void __ubsan_handle_invalid_builtin(BuiltinData* data) {
  report(data->at, builtin_fault(data->kind));
}
}

#endif
