// A case file: a readable header, then the tensors' bytes. docs/testing.md has the format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace spark::runner {

inline constexpr int kFormatVersion = 1;

// The file, or the command line, cannot be used: exit code 2.
struct WrongInput : std::runtime_error {
  using std::runtime_error::runtime_error;
};

__attribute__((format(printf, 1, 2))) [[noreturn]] void reject(const char* format, ...);

enum class ElementType { bf16, fp16, f32, f64, i32, u8 };

size_t size_of(ElementType type);
const char* name_of(ElementType type);

// Bytes of the file that become one allocation; tensors are views of it.
struct Block {
  size_t offset;  // in the data
  size_t bytes;
};

// Strides count elements. Without a block it only says what an output looks like.
struct TensorEntry {
  std::string name;
  ElementType type;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  int block = -1;
  size_t offset = 0;  // of the first element in its block, in bytes

  int64_t count() const;
  // Elements from the first to the last, both counted; 0 where there is none.
  int64_t extent() const;
};

struct CaseFile {
  std::string case_id;
  std::string variant;
  std::string family;
  std::map<std::string, std::string> values;  // everything else that is `key = value`
  std::vector<Block> blocks;
  std::vector<TensorEntry> inputs;
  std::vector<TensorEntry> outputs;
  std::vector<TensorEntry> expected;
  std::vector<char> data;

  const char* bytes_of(const TensorEntry& tensor) const {
    return data.data() + blocks[tensor.block].offset + tensor.offset;
  }
};

const TensorEntry* find_tensor(const std::vector<TensorEntry>& tensors, const std::string& name);

// Every offset, size and name is checked: what it returns can be used without further looks. Throws WrongInput.
CaseFile read_case_file(const std::string& path);

// Under a temporary name first. Throws WrongInput where it cannot.
void write_case_file(const std::string& path, const CaseFile& file);

}  // namespace spark::runner
