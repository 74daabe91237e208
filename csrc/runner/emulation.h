// The emulator's settings and its proof of work; on a GPU none of it exists.
#pragma once

#include <cstdint>
#include <string>

#ifdef SPARK_EMULATOR
#include "emulator/emulator.h"
#endif

namespace spark::runner::emulation {

#ifdef SPARK_EMULATOR

inline constexpr bool kEmulated = true;

// Shared memory is limited as on the arch that the runner was built for.
#ifdef SPARK_RUNNER_SHARED_LIMIT
inline void limit_shared_memory() {
  spark_emulator_set_shared_limits(SPARK_RUNNER_SHARED_LIMIT, SPARK_RUNNER_STATIC_SHARED_LIMIT);
}
#endif
inline void configure(int schedule, int async_mode, uint64_t seed) {
  spark_emulator_configure(schedule, async_mode, seed, 0);
}
inline void add_buffer(const char* name, const void* begin, size_t bytes, bool writable, bool written) {
  spark_emulator_add_buffer(name, begin, bytes, writable, written);
}
inline void remove_buffer(const void* begin) {
  spark_emulator_remove_buffer(begin);
}
inline void written_ahead(const void* begin) {
  spark_emulator_written_ahead(begin);
}
inline int64_t launch_count() {
  return static_cast<int64_t>(spark_emulator_launch_count());
}
// Whether a launcher did something undefined that its launches did not fail for; last_error() says what.
inline bool host_failed() {
  return spark_emulator_host_failed() != 0;
}
inline std::string last_error() {
  std::string text(spark_emulator_last_error(nullptr, 0) + 1, '\0');
  spark_emulator_last_error(text.data(), text.size());
  text.pop_back();
  return text;
}

#else

inline constexpr bool kEmulated = false;

inline void limit_shared_memory() {}
inline void configure(int, int, uint64_t) {}
inline void add_buffer(const char*, const void*, size_t, bool, bool) {}
inline void remove_buffer(const void*) {}
inline void written_ahead(const void*) {}
inline int64_t launch_count() {
  return 0;
}
inline bool host_failed() {
  return false;
}
inline std::string last_error() {
  return {};
}

#endif

}  // namespace spark::runner::emulation
