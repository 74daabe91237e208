// Reading and writing case files.
#include "runner/case_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

#include "runner/source_file.h"

namespace spark::runner {
namespace {

constexpr const char* kMagic = "sparkctl-case ";
constexpr size_t kMaxLine = 4096;
constexpr size_t kMaxLines = 256;
constexpr size_t kMaxRank = 8;

constexpr struct {
  ElementType type;
  const char* name;
  size_t bytes;
} kTypes[] = {{ElementType::bf16, "bf16", 2}, {ElementType::fp16, "fp16", 2}, {ElementType::f32, "f32", 4},
              {ElementType::f64, "f64", 8},   {ElementType::i32, "i32", 4},   {ElementType::u8, "u8", 1}};

int64_t whole_number(const std::string& what, const std::string& text) {
  errno = 0;
  char* end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || errno != 0 || value < 0) {
    reject("%s is '%s', accepted is a whole number from 0 on", what.c_str(), text.c_str());
  }
  return value;
}

std::vector<int64_t> numbers(const std::string& what, const std::string& text) {
  std::vector<int64_t> values;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) values.push_back(whole_number(what, part));
  if (values.empty() || values.size() > kMaxRank || text.back() == ',') {
    reject("%s is '%s', accepted are 1 to %zu numbers with commas between", what.c_str(), text.c_str(), kMaxRank);
  }
  return values;
}

// Also becomes a file name under --write.
void check_name(const char* what, const std::string& text) {
  const auto usual = [](unsigned char c) { return std::isalnum(c) || std::strchr("._+-", c) != nullptr; };
  if (text.empty() || text.size() > 200 || text[0] == '.' || !std::all_of(text.begin(), text.end(), usual)) {
    reject("%s is '%s', accepted are letters, digits and ._+-", what, text.c_str());
  }
}

// `word key=value key=value`: the words without '=' come first.
std::map<std::string, std::string> fields_of(const std::string& text, std::string* first_word) {
  std::map<std::string, std::string> fields;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos && first_word != nullptr && first_word->empty()) {
      *first_word = word;
    } else if (equals == std::string::npos || !fields.emplace(word.substr(0, equals), word.substr(equals + 1)).second) {
      reject("'%s' is not understood in '%s'", word.c_str(), text.c_str());
    }
  }
  return fields;
}

std::string take(std::map<std::string, std::string>& fields, const char* key, const std::string& where) {
  const auto found = fields.find(key);
  if (found == fields.end()) reject("%s has no %s", where.c_str(), key);
  std::string value = std::move(found->second);
  fields.erase(found);
  return value;
}

void check_all_taken(const std::map<std::string, std::string>& fields, const std::string& where) {
  if (!fields.empty()) reject("%s has an unknown '%s'", where.c_str(), fields.begin()->first.c_str());
}

ElementType type_named(const std::string& name, const std::string& where) {
  for (const auto& type : kTypes) {
    if (name == type.name) return type.type;
  }
  reject("%s has dtype '%s', accepted are bf16, fp16, f32, f64, i32 and u8", where.c_str(), name.c_str());
}

TensorEntry tensor_from(const std::string& kind, const std::string& text) {
  TensorEntry tensor;
  auto fields = fields_of(text, &tensor.name);
  const std::string where = kind + " '" + tensor.name + "'";
  check_name((kind + "'s name").c_str(), tensor.name);
  tensor.type = type_named(take(fields, "dtype", where), where);
  tensor.shape = numbers(where + ": shape", take(fields, "shape", where));
  tensor.strides = numbers(where + ": strides", take(fields, "strides", where));
  if (tensor.shape.size() != tensor.strides.size()) {
    reject("%s has %zu sizes and %zu strides", where.c_str(), tensor.shape.size(), tensor.strides.size());
  }
  if (fields.count("block") != 0) {
    const int64_t block = whole_number(where + ": block", take(fields, "block", where));
    tensor.block = static_cast<int>(std::min<int64_t>(block, INT32_MAX));
    tensor.offset = static_cast<size_t>(whole_number(where + ": offset", take(fields, "offset", where)));
  }
  check_all_taken(fields, where);
  return tensor;
}

Block block_from(const std::string& text) {
  auto fields = fields_of(text, nullptr);
  Block block;
  block.offset = static_cast<size_t>(whole_number("block: offset", take(fields, "offset", "a block")));
  block.bytes = static_cast<size_t>(whole_number("block: bytes", take(fields, "bytes", "a block")));
  check_all_taken(fields, "a block");
  return block;
}

// Products of sizes and strides that do not fit 63 bits are caught here, once.
void check_extent(const char* kind, const TensorEntry& tensor) {
  int64_t count = 1, last = 0;
  bool fits = true;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    int64_t step = 0;
    fits = fits && !__builtin_mul_overflow(count, tensor.shape[i], &count);
    fits = fits && !__builtin_mul_overflow(std::max<int64_t>(tensor.shape[i] - 1, 0), tensor.strides[i], &step);
    fits = fits && !__builtin_add_overflow(last, step, &last);
  }
  if (!fits || last >= INT64_MAX / 16) reject("%s '%s' is too large for any memory", kind, tensor.name.c_str());
}

void check_place(const char* kind, const TensorEntry& tensor, const std::vector<Block>& blocks, bool needs_block) {
  check_extent(kind, tensor);
  if (tensor.block < 0) {
    if (needs_block) reject("%s '%s' has no block", kind, tensor.name.c_str());
    return;
  }
  if (static_cast<size_t>(tensor.block) >= blocks.size()) {
    reject("%s '%s' is in block %d, the file has %zu blocks", kind, tensor.name.c_str(), tensor.block, blocks.size());
  }
  const Block& block = blocks[tensor.block];
  const size_t needed = static_cast<size_t>(tensor.extent()) * size_of(tensor.type);
  if (tensor.offset > block.bytes || needed > block.bytes - tensor.offset) {
    reject("%s '%s' needs %zu bytes from offset %zu on, its block has %zu", kind, tensor.name.c_str(), needed,
           tensor.offset, block.bytes);
  }
  if (tensor.offset % size_of(tensor.type) != 0) {
    reject("%s '%s' starts at offset %zu, accepted is a multiple of %zu", kind, tensor.name.c_str(), tensor.offset,
           size_of(tensor.type));
  }
}

void check_tensors(const char* kind, const std::vector<TensorEntry>& tensors, const CaseFile& file, bool needs_block) {
  for (const TensorEntry& tensor : tensors) {
    check_place(kind, tensor, file.blocks, needs_block);
    if (find_tensor(tensors, tensor.name) != &tensor) reject("%s '%s' is there twice", kind, tensor.name.c_str());
  }
}

// One `key = value` line; true when it was the last one, `data = BYTES`.
bool take_line(const std::string& line, CaseFile& file, size_t* data_bytes) {
  const size_t equals = line.find(" = ");
  if (equals == std::string::npos) reject("the header's line '%s' is not 'key = value'", line.substr(0, 80).c_str());
  const std::string key = line.substr(0, equals), value = line.substr(equals + 3);
  if (key == "data") {
    *data_bytes = static_cast<size_t>(whole_number("data", value));
    return true;
  }
  if (key == "block") {
    file.blocks.push_back(block_from(value));
  } else if (key == "input" || key == "output" || key == "expected") {
    auto& list = key == "input" ? file.inputs : key == "output" ? file.outputs : file.expected;
    list.push_back(tensor_from(key, value));
  } else if (!file.values.emplace(key, value).second) {
    reject("the header has '%s' twice", key.c_str());
  }
  return false;
}

void check_magic(const std::string& line) {
  if (line.rfind(kMagic, 0) != 0) reject("this is no case file: it does not begin with '%s'", kMagic);
  const std::string version = line.substr(std::strlen(kMagic));
  if (version != std::to_string(kFormatVersion)) {
    reject("the format's version is %s, accepted is %d", version.substr(0, 20).c_str(), kFormatVersion);
  }
}

void print_tensors(std::ostream& out, const char* kind, const std::vector<TensorEntry>& tensors) {
  const auto list = [&out](const std::vector<int64_t>& values) {
    for (size_t i = 0; i < values.size(); ++i) out << (i ? "," : "") << values[i];
  };
  for (const TensorEntry& tensor : tensors) {
    out << kind << " = " << tensor.name << " dtype=" << name_of(tensor.type) << " shape=";
    list(tensor.shape);
    out << " strides=";
    list(tensor.strides);
    if (tensor.block >= 0) out << " block=" << tensor.block << " offset=" << tensor.offset;
    out << "\n";
  }
}

}  // namespace

void reject(const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  // Words of a damaged file may hold anything; a terminal must not get it.
  for (char* c = text; *c != '\0'; ++c) {
    if (*c < ' ' || *c > '~') *c = '?';
  }
  throw WrongInput(text);
}

size_t size_of(ElementType type) {
  return kTypes[static_cast<int>(type)].bytes;
}

const char* name_of(ElementType type) {
  return kTypes[static_cast<int>(type)].name;
}

int64_t TensorEntry::count() const {
  int64_t product = 1;
  for (int64_t size : shape) product *= size;
  return product;
}

int64_t TensorEntry::extent() const {
  if (count() == 0) return 0;
  int64_t last = 0;
  for (size_t i = 0; i < shape.size(); ++i) last += (shape[i] - 1) * strides[i];
  return last + 1;
}

const TensorEntry* find_tensor(const std::vector<TensorEntry>& tensors, const std::string& name) {
  for (const TensorEntry& tensor : tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

CaseFile read_case_file(const std::string& path) {
  const SourceFile source(path);
  const std::vector<char> start = source.read(std::min(source.size(), kMaxLine * (kMaxLines + 1)));
  const std::string_view text(start.data(), start.size());
  CaseFile file;
  size_t at = 0, data_bytes = 0;
  for (size_t number = 0;; ++number) {
    const size_t end = text.substr(at, kMaxLine).find('\n');
    if (end == std::string_view::npos || number > kMaxLines) {
      if (number == 0) check_magic(std::string(text.substr(0, 80)));
      reject("the header does not end: the file is cut off, or no case file");
    }
    const std::string line(text.substr(at, end));
    at += end + 1;
    if (number == 0) {
      check_magic(line);
    } else if (take_line(line, file, &data_bytes)) {
      break;
    }
  }
  if (source.size() - at != data_bytes) {
    reject("%zu bytes of data follow the header, which says %zu: the file is cut off or damaged", source.size() - at,
           data_bytes);
  }
  file.data.assign(start.begin() + static_cast<std::ptrdiff_t>(at), start.end());
  const std::vector<char> rest = source.read(data_bytes - file.data.size());
  file.data.insert(file.data.end(), rest.begin(), rest.end());
  if (file.data.size() != data_bytes) reject("it became shorter while it was read");
  for (const Block& block : file.blocks) {
    if (block.offset > data_bytes || block.bytes > data_bytes - block.offset) {
      reject("a block of %zu bytes at offset %zu, the file has %zu bytes of data", block.bytes, block.offset,
             data_bytes);
    }
  }
  check_tensors("input", file.inputs, file, true);
  check_tensors("output", file.outputs, file, false);
  check_tensors("expected", file.expected, file, true);
  file.case_id = take(file.values, "case", "the header");
  file.variant = take(file.values, "variant", "the header");
  file.family = take(file.values, "family", "the header");
  check_name("case", file.case_id);
  check_name("variant", file.variant);
  return file;
}

void write_case_file(const std::string& path, const CaseFile& file) {
  namespace fs = std::filesystem;
  std::error_code code;
  fs::create_directories(fs::path(path).parent_path(), code);
  const std::string draft = path + "." + std::to_string(::getpid()) + ".tmp";
  std::ofstream out(draft, std::ios::binary | std::ios::trunc);
  out << kMagic << kFormatVersion << "\ncase = " << file.case_id << "\nvariant = " << file.variant
      << "\nfamily = " << file.family << "\n";
  for (const auto& [key, value] : file.values) out << key << " = " << value << "\n";
  for (const Block& block : file.blocks) out << "block = offset=" << block.offset << " bytes=" << block.bytes << "\n";
  print_tensors(out, "input", file.inputs);
  print_tensors(out, "output", file.outputs);
  print_tensors(out, "expected", file.expected);
  out << "data = " << file.data.size() << "\n";
  out.write(file.data.data(), static_cast<std::streamsize>(file.data.size()));
  out.close();
  if (out) fs::rename(draft, path, code);
  if (!out || code) {
    fs::remove(draft, code);
    reject("%s cannot be written: %s", path.c_str(), std::strerror(errno));
  }
}

}  // namespace spark::runner
