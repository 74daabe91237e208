// Dependent launches in runs that are not watched (there the race check sees more). Such a kernel may start before the
// kernel ahead of it has ended: until a thread of its block has passed griddepcontrol.wait, what the kernel ahead
// changed in named writable memory (spark_emulator_add_buffer), or is said to have (spark_emulator_written_ahead), is
// 0xFF to it.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace spark::emulator {

struct ChangedRange {
  char* begin;
  size_t bytes;
};

// What the kernel ahead changed, for one launch. Blocks take turns: no two may run at once.
class Hidden {
 public:
  explicit Hidden(std::vector<ChangedRange> ranges) : ranges_(std::move(ranges)) {}

  bool empty() const { return ranges_.empty(); }
  bool is_hidden() const { return is_hidden_; }
  // Before a block, or a cluster: hides the ranges, as they are now.
  void hide();
  // Brings them back, but for the bytes that the kernel has written since.
  void reveal();

 private:
  std::vector<ChangedRange> ranges_;
  std::vector<char> kept_;
  bool is_hidden_ = false;
  size_t moved_bytes_ = 0;
};

namespace dependence {

// Before every launch: keeps a copy of the named writable memory. Gives what the kernel ahead changed there.
std::vector<ChangedRange> launch_begins();
// After it: notes what has changed.
void launch_ends();
// The memory is no longer what it was.
void forget_buffer(const void* begin);

}  // namespace dependence
}  // namespace spark::emulator
