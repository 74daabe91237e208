// The frame of the broken set: `PROGRAM CASE broken|healthy` runs one case, `PROGRAM --list` names them all. A fault
// has a healthy twin; legal code is odd, healthy and nothing else. Compiles for the emulator and for a GPU.
#pragma once

#include <cstring>
#include <map>
#include <numeric>

#include "common/types.h"
#include "common/warp.h"
#include "program/program.h"

namespace spark::broken {

struct Case {
  void (*broken)();  // null for legal code
  void (*healthy)();
};

inline std::map<std::string, Case>& cases() {
  static std::map<std::string, Case> table;
  return table;
}

struct Registration {
  Registration(const char* name, Case each) { cases()[name] = each; }
};

// Memory between kernels. It is left as it was found, for a GPU's tools count a memset as a first write.
template <typename T>
class Workspace {
 public:
  Workspace(const char* name, size_t count) : memory_(count * sizeof(T)) {
    runner::emulation::add_buffer(name, memory_.data(), memory_.bytes(), true, false);
  }
  ~Workspace() { runner::emulation::remove_buffer(memory_.data()); }

  T* data() const { return static_cast<T*>(memory_.data()); }

 private:
  runner::Buffer memory_;
};

// 0, 1, 2, …
inline std::vector<int> count_up(size_t count) {
  std::vector<int> values(count);
  std::iota(values.begin(), values.end(), 0);
  return values;
}

// Only of a run that went well: what a failed one leaves says nothing.
template <typename Expected>
void expect_values(const program::Buffer<int>& out, Expected expected) {
  if (program::failed()) return;
  const std::vector<int> values = out.values();
  for (size_t i = 0; i < values.size(); ++i) {
    const int wanted = expected(static_cast<int>(i));
    program::expect(values[i] == wanted, "out[%zu] is %d, expected is %d", i, values[i], wanted);
    if (program::failed()) return;
  }
}

// kernel(in, out) with in = 0, 1, 2, … and out[i] = expected(i).
template <typename Expected>
void run_ints(const char* name, void (*kernel)(const int*, int*), const LaunchConfig& config, size_t in_count,
              size_t out_count, Expected expected) {
  const program::Buffer<int> in("in", count_up(in_count));
  const program::Buffer<int> out("out", out_count);
  program::run(launch_named(name, kernel, config, static_cast<const int*>(in.data()), out.data()));
  expect_values(out, expected);
}

}  // namespace spark::broken

// FAULT(name) { … }: a function template over BROKEN.
#define FAULT(name)                                                                                      \
  template <bool BROKEN>                                                                                 \
  void run_##name();                                                                                     \
  const ::spark::broken::Registration registration_##name{#name, {run_##name<true>, run_##name<false>}}; \
  template <bool BROKEN>                                                                                 \
  void run_##name()

// LEGAL(name) { … }
#define LEGAL(name)                                                                      \
  void run_##name();                                                                     \
  const ::spark::broken::Registration registration_##name{#name, {nullptr, run_##name}}; \
  void run_##name()

int main(int argc, char** argv) {
  const auto& cases = spark::broken::cases();
  if (argc == 2 && std::strcmp(argv[1], "--list") == 0) {
    for (const auto& [name, each] : cases) {
      std::printf("%s %s\n", each.broken == nullptr ? "legal" : "fault", name.c_str());
    }
    return 0;
  }
  const auto found = cases.find(argc == 3 ? argv[1] : "");
  const bool broken = argc == 3 && std::strcmp(argv[2], "broken") == 0;
  const bool known = broken || (argc == 3 && std::strcmp(argv[2], "healthy") == 0);
  if (found == cases.end() || !known || (broken && found->second.broken == nullptr)) {
    std::fprintf(stderr, "usage: %s CASE broken|healthy, or --list; legal cases are healthy\n", argv[0]);
    return 2;
  }
  (broken ? found->second.broken : found->second.healthy)();
  return spark::program::finish();
}
