// Undefined behaviour, in builds for `sparkctl test --sanitize undefined`: in a kernel it ends the block, in a launcher
// it fails the launch.
#pragma once

#include <cstdint>
#include <string>

#include "emulator/runtime.h"

namespace spark::emulator {

// What host code did that is undefined since this was last asked, told once; empty: nothing.
std::string take_host_fault();

// What the compiler says about a type: "'int'" with its kind and width.
struct TypeDescriptor {
  uint16_t kind;  // 0: integer, 1: floating point
  uint16_t info;  // integer: signedness and twice the logarithm of its bits; floating point: its bits
  char quoted_name[1];

  std::string name() const;
  bool is_integer() const { return kind == 0; }
  bool is_signed() const { return is_integer() && (info & 1) != 0; }
  unsigned bits() const { return is_integer() ? 1u << (info >> 1) : info; }
};

// A value as the compiler hands it over: itself where it fits a register, else its address.
struct Operand {
  const TypeDescriptor& type;
  uintptr_t handle;

  // Sign-extended; for integers.
  __int128 value() const;
  bool is_negative() const { return type.is_signed() && value() < 0; }
  std::string text() const;

 private:
  template <typename T>
  T as() const;
};

}  // namespace spark::emulator
