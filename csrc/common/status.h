// What a plain C launcher returns: code 0, or a code and a sentence.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <cstdio>

namespace spark {

struct Status {
  int32_t code;  // 0 is success
  char message[248];
};

inline Status ok() {
  return Status{0, {0}};
}

__attribute__((format(printf, 1, 2))) inline Status error(const char* format, ...) {
  Status status{1, {0}};
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(status.message, sizeof(status.message), format, arguments);
  va_end(arguments);
  return status;
}

}  // namespace spark
