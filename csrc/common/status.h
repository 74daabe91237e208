// What a plain C launcher returns: code 0, or a code and a sentence.
#pragma once

#include <cstdarg>
#include <cstdio>

#include "common/integers.h"

namespace spark {

enum StatusCode : int32_t {
  STATUS_OK = 0,
  STATUS_FAILED = 1,            // the work could not be done
  STATUS_INVALID_ARGUMENT = 2,  // the caller's values are not accepted; nothing ran
};

struct Status {
  int32_t code;  // a StatusCode
  char message[248];
};

inline Status ok() {
  return Status{STATUS_OK, {0}};
}

inline Status format_status(StatusCode code, const char* format, va_list arguments) {
  Status status{code, {0}};
  std::vsnprintf(status.message, sizeof(status.message), format, arguments);
  return status;
}

__attribute__((format(printf, 1, 2))) inline Status error(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const Status status = format_status(STATUS_FAILED, format, arguments);
  va_end(arguments);
  return status;
}

__attribute__((format(printf, 1, 2))) inline Status invalid_argument(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const Status status = format_status(STATUS_INVALID_ARGUMENT, format, arguments);
  va_end(arguments);
  return status;
}

}  // namespace spark
