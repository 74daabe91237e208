// A regular file of which the first bytes decide whether the others are read.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace spark::runner {

class SourceFile {
 public:
  // WrongInput for what cannot be opened, and at once for whatever is no regular file: a device has no end, a FIFO may
  // have no writer.
  explicit SourceFile(const std::string& path);
  SourceFile(const SourceFile&) = delete;
  SourceFile& operator=(const SourceFile&) = delete;
  ~SourceFile();

  size_t size() const { return size_; }

  // From where the last call ended; fewer bytes where the file ends. WrongInput where it cannot be read.
  std::vector<char> read(size_t bytes) const;

 private:
  int file_ = -1;
  size_t size_ = 0;
};

}  // namespace spark::runner
