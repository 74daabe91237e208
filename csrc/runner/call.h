// What a family's function works with: a case's values and inputs, checked, and guarded outputs.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/variant.h"
#include "runner/case_file.h"
#include "runner/memory.h"

namespace spark::runner {

// A kernel could not be launched, or ended in an error: the case fails.
struct CallFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Poison (0xFF bytes: NaN in every float type) in which an output lies between two margins of it.
class Output {
 public:
  explicit Output(TensorEntry entry);
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output();

  const TensorEntry& entry() const { return entry_; }
  void* address() const { return static_cast<char*>(memory_.data()) + margin_bytes(); }
  // Of the fetched copy, at an offset in elements.
  const char* fetched(int64_t offset) const { return copy_.data() + margin_bytes() + offset * element_bytes(); }
  void fetch();
  const std::vector<char>& copy() const { return copy_; }  // margins too
  // What was written beside the elements; empty: nothing.
  std::string stray_writes() const;

 private:
  size_t element_bytes() const { return size_of(entry_.type); }
  size_t margin_bytes() const { return 64 * element_bytes(); }

  TensorEntry entry_;
  Buffer memory_;
  std::vector<char> copy_;
};

using Shape = std::vector<int64_t>;

class Call {
 public:
  explicit Call(const CaseFile& file);
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call();

  const CaseFile& file() const { return file_; }
  const Variant& variant() const { return variant_; }
  // The variant that the header names under `key`; it must be of `family`.
  const Variant& variant_named(const char* key, const char* family);

  // Values of the header. WrongInput where one is missing, no number or out of range.
  int64_t integer(const char* key, int64_t min, int64_t max);
  int64_t integer_or(const char* key, int64_t fallback, int64_t min, int64_t max);
  double real(const char* key);
  double real_or(const char* key, double fallback);

  // Inputs; an optional one that is not there is null. A size of -1 in `shape` is any.
  const TensorEntry& input(const char* name, ElementType type, const Shape& shape);
  const TensorEntry* optional_input(const char* name, ElementType type, const Shape& shape);
  // In the memory that kernels read, uploaded at the first call.
  const void* address(const TensorEntry& input);
  // One element on the host.
  int32_t int_at(const TensorEntry& input, std::initializer_list<int64_t> index) const;

  // Poisoned outputs as the header describes them.
  Output& output(const char* name, ElementType type, const Shape& shape);
  Output* optional_output(const char* name, ElementType type, const Shape& shape);
  // A contiguous one beside them, which may stay unwritten.
  Output& workspace(const char* name, ElementType type, const Shape& shape);

  // WrongInput where the file has values or tensors that nobody asked for: they would be silently left out.
  void check_all_known() const;
  // Checks that before the first launch.
  void launch(const Variant& variant, const void* params);

  std::deque<Output>& outputs() { return outputs_; }
  int launches() const { return launches_; }
  // Outputs are as before the first launch.
  void reset();

 private:
  const std::string* value_of(const char* key);
  // The first launch sees its inputs as written by a kernel ahead of it, where that takes little time.
  void put_writer_ahead() const;

  const CaseFile& file_;
  const Variant& variant_;
  std::set<std::string> known_ = {"launches", "rel_l2", "lse_error"};  // every family's: read after the launches
  std::map<int, Buffer> blocks_;
  std::deque<Output> outputs_;
  int launches_ = 0;
};

// The variant of this program by its name; WrongInput if it holds none.
const Variant& variant_by_name(const std::string& name);

// The strides before the last of a [.., head_dim] tensor; its rows must start at multiples of 16 bytes. WrongInput.
Shape row_strides(const TensorEntry& tensor);

void check_contiguous(const TensorEntry& tensor);

}  // namespace spark::runner
