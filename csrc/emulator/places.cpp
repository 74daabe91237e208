// Looking places up: Sites in a table, code addresses through addr2line.
#include "emulator/places.h"

#include <dlfcn.h>
#include <elf.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <vector>

#include "emulator/block.h"

namespace spark::emulator {
namespace {

constexpr Place kIsSite = 1u << 31;
constexpr int64_t kMiddle = int64_t{1} << 30;
const char anchor = 0;  // code lies within 1 GiB of it

std::vector<Site>& sites() {
  static auto* const table = new std::vector<Site>;
  return *table;
}

const char* address_of(Place place) {
  return &anchor + (static_cast<int64_t>(place) - kMiddle);
}

// addr2line wants an address in the file: relative to where it is loaded, unless it is linked to a fixed address.
bool is_linked_to_fixed_address(const char* file) {
  Elf64_Ehdr header{};
  std::ifstream(file, std::ios::binary).read(reinterpret_cast<char*>(&header), sizeof header);
  return header.e_type == ET_EXEC;
}

std::string first_line_of(const std::string& command) {
  std::FILE* stream = popen(command.c_str(), "r");
  if (stream == nullptr) return {};
  char line[1024] = "";
  if (std::fgets(line, sizeof line, stream) == nullptr) line[0] = '\0';
  pclose(stream);
  line[std::strcspn(line, "\n")] = '\0';
  return line;
}

std::string quoted(const char* text) {
  std::string word = "'";
  for (; *text != '\0'; ++text) word += *text == '\'' ? std::string("'\\''") : std::string(1, *text);
  return word + "'";
}

std::string describe_code(const char* return_address) {
  const char* call = return_address - 1;  // the call itself: the address after it may be another line's
  char text[64];
  std::snprintf(text, sizeof text, "code address %p", static_cast<const void*>(call));
  Dl_info image{};
  if (dladdr(call, &image) == 0 || image.dli_fname == nullptr) return text;
  const bool fixed = is_linked_to_fixed_address(image.dli_fname);
  const auto offset = reinterpret_cast<uintptr_t>(call) - (fixed ? 0 : reinterpret_cast<uintptr_t>(image.dli_fbase));
  char address[32];
  std::snprintf(address, sizeof address, " 0x%zx", static_cast<size_t>(offset));
  const std::string line = first_line_of("addr2line -e " + quoted(image.dli_fname) + address + " 2>/dev/null");
  const size_t colon = line.rfind(':');
  if (colon == std::string::npos || line[0] == '?') return text;
  const int number = std::atoi(line.c_str() + colon + 1);
  return number > 0 ? describe(Site{line.substr(0, colon).c_str(), number}) : text;
}

}  // namespace

Place place_of(const void* return_address) {
  return static_cast<Place>(static_cast<const char*>(return_address) - &anchor + kMiddle);
}

Place place_of(Site site) {
  std::vector<Site>& table = sites();
  for (size_t i = table.size(); i-- > 0;) {
    if (table[i].line == site.line && std::strcmp(table[i].file, site.file) == 0)
      return static_cast<Place>(i) | kIsSite;
  }
  table.push_back(site);
  return static_cast<Place>(table.size() - 1) | kIsSite;
}

std::string describe(Place place) {
  return (place & kIsSite) != 0 ? describe(sites()[place & ~kIsSite]) : describe_code(address_of(place));
}

}  // namespace spark::emulator
