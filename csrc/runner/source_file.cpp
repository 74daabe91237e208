// Opening and reading a file that may be anything.
#include "runner/source_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runner/case_file.h"

namespace spark::runner {
namespace {

// Null for a regular file.
const char* other_kind(mode_t mode) {
  if (S_ISREG(mode)) return nullptr;
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

}  // namespace

SourceFile::SourceFile(const std::string& path) {
  // Asked before the open, which may set a device going, and of the open file, which may be another one by then.
  struct stat about = {};
  if (::stat(path.c_str(), &about) != 0) reject("it cannot be read: %s", std::strerror(errno));
  const char* other = other_kind(about.st_mode);
  if (other == nullptr) {
    file_ = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    const bool opened = file_ >= 0 && ::fstat(file_, &about) == 0;
    const int code = errno;
    other = opened ? other_kind(about.st_mode) : nullptr;
    if ((!opened || other != nullptr) && file_ >= 0) ::close(file_);  // no destructor runs
    if (!opened) reject("it cannot be read: %s", std::strerror(code));
  }
  if (other != nullptr) reject("it is %s, accepted is a regular file", other);
  size_ = static_cast<size_t>(about.st_size);
}

SourceFile::~SourceFile() {
  ::close(file_);
}

std::vector<char> SourceFile::read(size_t bytes) const {
  std::vector<char> result(bytes);
  size_t got = 0;
  while (got < bytes) {
    const ssize_t more = ::read(file_, result.data() + got, bytes - got);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) reject("it cannot be read: %s", std::strerror(errno));
    if (more == 0) break;
    got += static_cast<size_t>(more);
  }
  result.resize(got);
  return result;
}

}  // namespace spark::runner
