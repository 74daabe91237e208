// The settings, the count of launches and the last error, shared by all host threads.
#include "emulator/settings.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

namespace spark::emulator {
namespace {

constexpr int kMaxDefaultWorkers = 16;  // each keeps its own stacks mapped

struct Shared {
  std::mutex mutex;
  Settings settings;
  uint64_t launches = 0;
  std::string last_kernel;
  std::string last_error;
};

uint64_t number_from_environment(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  if (text == nullptr) return fallback;
  char* end = nullptr;
  const uint64_t value = std::strtoull(text, &end, 0);
  return end == text || *end != '\0' ? fallback : value;
}

// 0, 1 or 2 by its number or its word.
int choice_from_environment(const char* name, const char* const (&words)[3]) {
  const char* text = std::getenv(name);
  for (int i = 0; text != nullptr && i < 3; ++i) {
    if (std::strcmp(text, words[i]) == 0 || std::to_string(i) == text) return i;
  }
  return 0;
}

int default_schedule() {
  return choice_from_environment("SPARKCTL_EMULATOR_SCHEDULE", {"ascending", "descending", "random"});
}

int default_async_mode() {
  return choice_from_environment("SPARKCTL_EMULATOR_ASYNC", {"late", "early", "random"});
}

int default_workers() {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int usual = std::clamp(cores, 1, kMaxDefaultWorkers);
  return std::max(1, static_cast<int>(number_from_environment("SPARKCTL_EMULATOR_THREADS", usual)));
}

size_t default_shared_limit() {
  return number_from_environment("SPARKCTL_EMULATOR_SHARED_LIMIT", Settings{}.shared_limit);
}

Settings settings_from_environment() {
  Settings settings;
  settings.schedule = default_schedule();
  settings.async_mode = default_async_mode();
  settings.seed = number_from_environment("SPARKCTL_EMULATOR_SEED", settings.seed);
  settings.workers = default_workers();
  settings.shared_limit = default_shared_limit();
  return settings;
}

// Never destroyed: a launch may still run while the process leaves.
Shared& shared() {
  static Shared* const instance = [] {
    auto* made = new Shared;
    made->settings = settings_from_environment();
    return made;
  }();
  return *instance;
}

size_t copy_out(const std::string& from, char* text, size_t size) {
  if (text != nullptr && size > 0) {
    const size_t length = std::min(from.size(), size - 1);
    std::memcpy(text, from.data(), length);
    text[length] = '\0';
  }
  return from.size();
}

}  // namespace

Settings current_settings() {
  const std::lock_guard lock(shared().mutex);
  return shared().settings;
}

void note_launch(const char* kernel, size_t length) {
  const std::lock_guard lock(shared().mutex);
  ++shared().launches;
  shared().last_kernel.assign(kernel, length);
  shared().last_error.clear();
}

void note_error(const char* text) {
  const std::lock_guard lock(shared().mutex);
  shared().last_error = text;
}

extern "C" {

void spark_emulator_configure(int thread_schedule, int async_mode, uint64_t seed, int workers) {
  const std::lock_guard lock(shared().mutex);
  Settings& settings = shared().settings;
  settings.schedule = thread_schedule < 0 ? default_schedule() : std::min(thread_schedule, 2);
  settings.async_mode = async_mode < 0 ? default_async_mode() : std::min(async_mode, 2);
  settings.seed = seed;
  settings.workers = workers <= 0 ? default_workers() : workers;
}

void spark_emulator_set_shared_limits(size_t block_bytes, size_t static_bytes) {
  const std::lock_guard lock(shared().mutex);
  shared().settings.shared_limit = block_bytes == 0 ? default_shared_limit() : block_bytes;
  shared().settings.static_shared_limit = static_bytes == 0 ? Settings{}.static_shared_limit : static_bytes;
}

uint64_t spark_emulator_launch_count(void) {
  const std::lock_guard lock(shared().mutex);
  return shared().launches;
}

size_t spark_emulator_last_kernel(char* text, size_t size) {
  const std::lock_guard lock(shared().mutex);
  return copy_out(shared().last_kernel, text, size);
}

size_t spark_emulator_last_error(char* text, size_t size) {
  const std::lock_guard lock(shared().mutex);
  return copy_out(shared().last_error, text, size);
}
}

}  // namespace spark::emulator
