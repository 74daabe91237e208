// A call's values, inputs and outputs.
#include "runner/call.h"

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "runner/emulation.h"

namespace spark::runner {
namespace {

constexpr unsigned char kPoison = 0xff;
constexpr size_t kMostBytesAhead = size_t{1} << 20;   // each block of a grid hides and brings back as much
constexpr int64_t kLargestOutput = int64_t{1} << 32;  // elements; beyond it a header is wrong, not large

std::string shape_text(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + (shape[i] < 0 ? "any" : std::to_string(shape[i]));
  return text + "]";
}

void check_like(const char* kind, const TensorEntry& tensor, ElementType type, const Shape& shape) {
  if (tensor.type != type) {
    reject("%s '%s' has dtype %s, accepted is %s", kind, tensor.name.c_str(), name_of(tensor.type), name_of(type));
  }
  bool same = tensor.shape.size() == shape.size();
  for (size_t i = 0; same && i < shape.size(); ++i) same = shape[i] < 0 || tensor.shape[i] == shape[i];
  if (!same) {
    reject("%s '%s' has shape %s, accepted is %s", kind, tensor.name.c_str(), shape_text(tensor.shape).c_str(),
           shape_text(shape).c_str());
  }
}

size_t output_bytes(const TensorEntry& entry) {
  if (entry.extent() > kLargestOutput) reject("output '%s' is too large for any memory", entry.name.c_str());
  return (static_cast<size_t>(entry.extent()) + 128) * size_of(entry.type);
}

std::string failure_text(const Status& status) {
  const std::string whole = status.code == STATUS_FAILED ? emulation::last_error() : std::string();
  return whole.empty() ? status.message : whole;  // the status may hold only a part
}

// Steps `index` through `shape`; false after the last.
bool advance(Shape& index, const Shape& shape) {
  for (size_t i = shape.size(); i-- > 0;) {
    if (++index[i] < shape[i]) return true;
    index[i] = 0;
  }
  return false;
}

}  // namespace

Output::Output(TensorEntry entry) : entry_(std::move(entry)), memory_(output_bytes(entry_)) {
  memory_.fill(kPoison);
  const size_t bytes = static_cast<size_t>(entry_.extent()) * element_bytes();  // without the margins
  emulation::add_buffer(entry_.name.c_str(), address(), bytes, true, false);
}

Output::~Output() {
  emulation::remove_buffer(address());
}

void Output::fetch() {
  copy_.resize(memory_.bytes());
  device::download(copy_.data(), memory_.data(), copy_.size());
}

std::string Output::stray_writes() const {
  const int64_t margin = static_cast<int64_t>(margin_bytes() / element_bytes());
  const int64_t elements = static_cast<int64_t>(copy_.size() / element_bytes());
  std::vector<bool> inside(static_cast<size_t>(elements));
  Shape index(entry_.shape.size());
  bool more = entry_.count() > 0;
  while (more) {
    int64_t offset = margin;
    for (size_t i = 0; i < index.size(); ++i) offset += index[i] * entry_.strides[i];
    inside[static_cast<size_t>(offset)] = true;
    more = advance(index, entry_.shape);
  }
  int64_t strays = 0, first = 0;
  const std::vector<char> poison(element_bytes(), static_cast<char>(kPoison));
  for (int64_t i = 0; i < elements; ++i) {
    const bool touched = std::memcmp(fetched(i - margin), poison.data(), element_bytes()) != 0;
    if (!touched || inside[static_cast<size_t>(i)]) continue;
    if (strays++ == 0) first = i - margin;
  }
  if (strays == 0) return {};
  return std::to_string(strays) + " elements were written outside of " + entry_.name + ", the first at element " +
         std::to_string(first) + " of 0 to " + std::to_string(entry_.extent() - 1);
}

Call::Call(const CaseFile& file) : file_(file), variant_(variant_by_name(file.variant)) {
  if (file.family != variant_.family) {
    reject("%s is of family %s, the file says %s", variant_.name, variant_.family, file.family.c_str());
  }
}

Call::~Call() {
  for (const auto& [number, block] : blocks_) emulation::remove_buffer(block.data());
}

const Variant& Call::variant_named(const char* key, const char* family) {
  const std::string* name = value_of(key);
  if (name == nullptr) reject("the header has no %s", key);
  const Variant& found = variant_by_name(*name);
  if (std::strcmp(found.family, family) != 0) {
    reject("%s is %s, of family %s, accepted is family %s", key, found.name, found.family, family);
  }
  return found;
}

int64_t Call::integer(const char* key, int64_t min, int64_t max) {
  const std::string* text = value_of(key);
  if (text == nullptr) reject("the header has no %s", key);
  errno = 0;
  char* end = nullptr;
  const long long value = std::strtoll(text->c_str(), &end, 10);
  if (text->empty() || *end != '\0' || errno != 0 || value < min || value > max) {
    reject("%s is '%s', accepted is %lld to %lld", key, text->c_str(), static_cast<long long>(min),
           static_cast<long long>(max));
  }
  return value;
}

int64_t Call::integer_or(const char* key, int64_t fallback, int64_t min, int64_t max) {
  return value_of(key) == nullptr ? fallback : integer(key, min, max);
}

double Call::real(const char* key) {
  const std::string* text = value_of(key);
  if (text == nullptr) reject("the header has no %s", key);
  char* end = nullptr;
  const double value = std::strtod(text->c_str(), &end);
  if (text->empty() || *end != '\0' || !std::isfinite(value)) {
    reject("%s is '%s', accepted is a finite number", key, text->c_str());
  }
  return value;
}

double Call::real_or(const char* key, double fallback) {
  return value_of(key) == nullptr ? fallback : real(key);
}

const TensorEntry* Call::optional_input(const char* name, ElementType type, const Shape& shape) {
  known_.insert(std::string("input ") + name);
  const TensorEntry* tensor = find_tensor(file_.inputs, name);
  if (tensor != nullptr) check_like("input", *tensor, type, shape);
  return tensor;
}

const TensorEntry& Call::input(const char* name, ElementType type, const Shape& shape) {
  const TensorEntry* tensor = optional_input(name, type, shape);
  if (tensor == nullptr) reject("family %s needs an input '%s'", file_.family.c_str(), name);
  return *tensor;
}

const void* Call::address(const TensorEntry& input) {
  auto found = blocks_.find(input.block);
  if (found == blocks_.end()) {
    const Block& block = file_.blocks[static_cast<size_t>(input.block)];
    found = blocks_.emplace(input.block, Buffer(block.bytes)).first;
    device::upload(found->second.data(), file_.data.data() + block.offset, block.bytes);
    emulation::add_buffer(input.name.c_str(), found->second.data(), block.bytes, false, true);
  }
  return input.count() == 0 ? nullptr : static_cast<const char*>(found->second.data()) + input.offset;
}

int32_t Call::int_at(const TensorEntry& input, std::initializer_list<int64_t> index) const {
  int64_t offset = 0;
  size_t axis = 0;
  for (int64_t i : index) offset += i * input.strides[axis++];
  int32_t value;
  std::memcpy(&value, file_.bytes_of(input) + offset * static_cast<int64_t>(sizeof value), sizeof value);
  return value;
}

Output* Call::optional_output(const char* name, ElementType type, const Shape& shape) {
  known_.insert(std::string("output ") + name);
  const TensorEntry* entry = find_tensor(file_.outputs, name);
  if (entry == nullptr) return nullptr;
  check_like("output", *entry, type, shape);
  for (size_t i = 0; i < entry->shape.size(); ++i) {
    if (entry->strides[i] < 1 && entry->shape[i] > 1) reject("output '%s' has a stride of 0", name);
  }
  return &outputs_.emplace_back(*entry);
}

Output& Call::output(const char* name, ElementType type, const Shape& shape) {
  Output* output = optional_output(name, type, shape);
  if (output == nullptr) reject("family %s needs an output '%s'", file_.family.c_str(), name);
  return *output;
}

Output& Call::workspace(const char* name, ElementType type, const Shape& shape) {
  TensorEntry entry{name, type, shape, Shape(shape.size(), 1), -1, 0};
  for (size_t i = shape.size(); i-- > 1;) entry.strides[i - 1] = entry.strides[i] * shape[i];
  return outputs_.emplace_back(std::move(entry));
}

void Call::launch(const Variant& variant, const void* params) {
  if (launches_ == 0) {
    check_all_known();
    put_writer_ahead();
  }
  ++launches_;
  const Status status = variant.launcher(params, nullptr);
  if (emulation::host_failed()) throw CallFailed(std::string(variant.name) + ": " + emulation::last_error());
  if (status.code != STATUS_OK) throw CallFailed(std::string(variant.name) + ": " + failure_text(status));
}

// Behind the kernel that writes its inputs is where a call usually comes.
void Call::put_writer_ahead() const {
  size_t bytes = 0;
  for (const auto& [number, block] : blocks_) bytes += block.bytes();
  if (bytes > kMostBytesAhead) return;
  for (const auto& [number, block] : blocks_) emulation::written_ahead(block.data());
}

void Call::reset() {
  outputs_.clear();
  launches_ = 0;
}

const std::string* Call::value_of(const char* key) {
  known_.insert(key);
  const auto found = file_.values.find(key);
  return found == file_.values.end() ? nullptr : &found->second;
}

void Call::check_all_known() const {
  const char* family = file_.family.c_str();
  for (const auto& [key, value] : file_.values) {
    if (known_.count(key) == 0) reject("family %s knows no value '%s'", family, key.c_str());
  }
  for (const TensorEntry& tensor : file_.inputs) {
    if (known_.count("input " + tensor.name) == 0) reject("family %s knows no input '%s'", family, tensor.name.c_str());
  }
  for (const TensorEntry& tensor : file_.outputs) {
    if (known_.count("output " + tensor.name) == 0) {
      reject("family %s knows no output '%s'", family, tensor.name.c_str());
    }
  }
}

const Variant& variant_by_name(const std::string& name) {
  for (const Variant& variant : variant_table()) {
    if (name == variant.name) return variant;
  }
  reject("this runner holds no variant '%s'; --list shows what it holds", name.c_str());
}

Shape row_strides(const TensorEntry& tensor) {
  const int64_t bytes = static_cast<int64_t>(size_of(tensor.type));
  const char* name = tensor.name.c_str();
  if (tensor.shape.back() > 1 && tensor.strides.back() != 1) {
    reject("'%s' has last stride %lld, accepted is 1", name, static_cast<long long>(tensor.strides.back()));
  }
  Shape strides(tensor.strides.begin(), tensor.strides.end() - 1);
  for (size_t i = 0; i < strides.size(); ++i) {
    if (tensor.shape[i] <= 1) strides[i] = 0;
    if (strides[i] * bytes % 16 != 0) {
      reject("'%s' has stride %lld on axis %zu, accepted is a multiple of 16 bytes", name,
             static_cast<long long>(strides[i]), i);
    }
  }
  if (tensor.offset % 16 != 0) reject("'%s' starts at offset %zu, accepted is a multiple of 16", name, tensor.offset);
  return strides;
}

void check_contiguous(const TensorEntry& tensor) {
  int64_t reach = 1;
  for (size_t i = tensor.shape.size(); i-- > 0;) {
    if (tensor.shape[i] > 1 && tensor.strides[i] != reach) reject("'%s' is not contiguous", tensor.name.c_str());
    reach *= tensor.shape[i];
  }
}

}  // namespace spark::runner
