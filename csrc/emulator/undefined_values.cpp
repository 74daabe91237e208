// The values in the compiler's reports of undefined behaviour.
#include <cstdio>
#include <cstring>

#include "emulator/undefined.h"

namespace spark::emulator {
namespace {

constexpr unsigned kHandleBits = 8 * sizeof(uintptr_t);

std::string digits(unsigned __int128 value) {
  std::string text;
  do {
    text.insert(text.begin(), static_cast<char>('0' + static_cast<int>(value % 10)));
    value /= 10;
  } while (value != 0);
  return text;
}

std::string shortest(const char* format, int digits, long double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, digits, value);
  return text;
}

}  // namespace

std::string TypeDescriptor::name() const {
  std::string text = quoted_name;
  if (text.size() >= 2 && text.front() == '\'' && text.back() == '\'') text = text.substr(1, text.size() - 2);
  return text;
}

template <typename T>
T Operand::as() const {
  T value;
  const void* from = type.bits() <= kHandleBits ? static_cast<const void*>(&handle) : reinterpret_cast<void*>(handle);
  std::memcpy(&value, from, sizeof value);  // a shorter value is in the low bytes
  return value;
}

__int128 Operand::value() const {
  if (type.bits() > kHandleBits) return as<__int128>();
  const unsigned unused = 128 - type.bits();
  const unsigned __int128 top = static_cast<unsigned __int128>(handle) << unused;
  return type.is_signed() ? static_cast<__int128>(top) >> unused : static_cast<__int128>(top >> unused);
}

std::string Operand::text() const {
  if (type.is_integer()) {
    const auto magnitude = static_cast<unsigned __int128>(value());
    return is_negative() ? "-" + digits(0 - magnitude) : digits(magnitude);
  }
  if (type.kind != 1 || type.bits() < 32) return "a value";
  if (type.bits() == 32) return shortest("%.*Lg", 9, as<float>());
  if (type.bits() == 64) return shortest("%.*Lg", 17, as<double>());
  return shortest("%.*Lg", 21, as<long double>());
}

}  // namespace spark::emulator
