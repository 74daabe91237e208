// A program of small cases: `program CASE` runs one and prints its status and the values it shows, for Python to judge.
// Compiles for the emulator and for a GPU, so that the two can be compared.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "common/launch.h"
#include "common/math.h"
#include "common/memory.h"
#include "common/types.h"
#include "common/warp.h"

#if defined(SPARK_EMULATOR)
#include "emulator/emulator.h"
#endif

namespace spark::test {

// Memory that host and kernels see, 256-byte aligned, never freed: a case is a process.
template <typename T>
T* make_buffer(size_t count) {
  void* memory = nullptr;
#if defined(SPARK_EMULATOR)
  memory = std::aligned_alloc(256, (count * sizeof(T) + 255) / 256 * 256);
#else
  cudaMallocManaged(&memory, count * sizeof(T));
#endif
  std::memset(memory, 0, count * sizeof(T));
  return static_cast<T*>(memory);
}

inline Status finished(Status status) {
#if !defined(SPARK_EMULATOR)
  if (const cudaError_t code = cudaDeviceSynchronize(); status.code == 0 && code != cudaSuccess) {
    return error("%s", cudaGetErrorString(code));
  }
#endif
  return status;
}

// Prints "value NAME BYTES hex hex ..." in the host's byte order.
template <typename T>
void show(const char* name, const T* values, size_t count) {
  std::printf("value %s %zu", name, sizeof(T));
  for (size_t i = 0; i < count; ++i) {
    unsigned char bytes[sizeof(T)];
    std::memcpy(bytes, values + i, sizeof(T));
    std::printf(" ");
    for (unsigned char byte : bytes) std::printf("%02x", byte);
  }
  std::printf("\n");
}

template <typename T>
void show(const char* name, T value) {
  show(name, &value, 1);
}

using CaseFunction = Status (*)();

inline std::map<std::string, CaseFunction>& cases() {
  static std::map<std::string, CaseFunction> table;
  return table;
}

struct CaseRegistration {
  CaseRegistration(const char* name, CaseFunction run) { cases()[name] = run; }
};

// The same numbers on every host, from 0 to 2^32 - 1.
struct Numbers {
  uint64_t state = 0x2545f4914f6cdd1dull;
  uint32_t next() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<uint32_t>(state >> 32);
  }
  float between(float low, float high) { return low + (high - low) * (next() >> 8) * 0x1p-24f; }
};

}  // namespace spark::test

#define CASE(name)                                                                      \
  static ::spark::Status case_##name();                                                 \
  static const ::spark::test::CaseRegistration registration_##name(#name, case_##name); \
  static ::spark::Status case_##name()

int main(int argc, char** argv) {
  const auto found = spark::test::cases().find(argc == 2 ? argv[1] : "");
  if (found == spark::test::cases().end()) {
    std::fprintf(stderr, "usage: %s CASE\n", argv[0]);
    return 2;
  }
  const spark::Status status = spark::test::finished(found->second());
  std::printf("status %d %s\n", status.code, status.message);
#if defined(SPARK_EMULATOR)
  char text[4096];
  spark_emulator_last_error(text, sizeof text);
  std::printf("error %s\n", text);
  spark_emulator_last_kernel(text, sizeof text);
  std::printf("kernel %s\n", text);
  std::printf("launches %llu\n", static_cast<unsigned long long>(spark_emulator_launch_count()));
#endif
  return 0;
}
