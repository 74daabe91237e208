// For a program of one file around a kernel of your own: named buffers, checked launches, a verdict.
//   sparkctl test my_kernel.cu --sanitize race       in the emulator
//   nvcc -std=c++17 -I csrc my_kernel.cu             on a GPU
#pragma once

#include <cstdarg>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "common/launch.h"
#include "common/memory.h"
#include "runner/emulation.h"
#include "runner/memory.h"

namespace spark::program {

#ifdef SPARK_RUNNER_SHARED_LIMIT
// A block has the shared memory of the arch that was asked for.
inline const bool is_limited = [] {
  runner::emulation::limit_shared_memory();
  return true;
}();
#endif

enum class Use { input, output, in_out };

// Memory that a kernel reads and writes. Outputs are poison (0xFF bytes) until it writes them.
template <typename T>
class Buffer {
 public:
  // An output of `count` elements.
  Buffer(const char* name, size_t count) : Buffer(name, count, Use::output) { memory_.fill(0xff); }

  // An input; with Use::in_out the kernel may write it too.
  Buffer(const char* name, const std::vector<T>& values, Use use = Use::input) : Buffer(name, values.size(), use) {
    runner::device::upload(memory_.data(), values.data(), values.size() * sizeof(T));
  }

  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { runner::emulation::remove_buffer(memory_.data()); }

  T* data() const { return static_cast<T*>(memory_.data()); }

  std::vector<T> values() const {
    std::vector<T> values(memory_.bytes() / sizeof(T));
    runner::device::download(values.data(), memory_.data(), memory_.bytes());
    return values;
  }

 private:
  Buffer(const char* name, size_t count, Use use) : memory_(count * sizeof(T)) {
    runner::emulation::add_buffer(name, memory_.data(), memory_.bytes(), use != Use::input, use != Use::output);
  }

  runner::Buffer memory_;
};

inline bool& failed() {
  static bool value = false;
  return value;
}

__attribute__((format(printf, 2, 3))) inline void expect(bool condition, const char* format, ...) {
  if (condition) return;
  failed() = true;
  std::va_list arguments;
  va_start(arguments, format);
  std::fputs("FAIL: ", stdout);
  std::vprintf(format, arguments);
  std::fputs("\n", stdout);
  va_end(arguments);
}

// Waits for a launch; what it says when it fails becomes a line of the program's output.
inline void run(const Status& status) {
  std::string text = status.message;
  if (status.code == STATUS_OK) {
    try {
      runner::device::wait();
      return;
    } catch (const runner::DeviceError& error) {
      text = error.what();
    }
  } else if (const std::string whole = runner::emulation::last_error(); !whole.empty()) {
    text = whole;  // the status may hold only a part
  }
  expect(false, "%s", text.c_str());
}

// The exit code of main().
inline int finish() {
  if (runner::emulation::host_failed()) expect(false, "%s", runner::emulation::last_error().c_str());
  if (!failed()) std::puts("pass");
  return failed() ? 1 : 0;
}

}  // namespace spark::program
