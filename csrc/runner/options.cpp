#include "runner/options.h"

#include <cerrno>
#include <cstdlib>

#include "runner/case_file.h"
#include "runner/emulation.h"

namespace spark::runner {
namespace {

uint64_t number(const std::string& option, const std::string& text, uint64_t min, uint64_t max) {
  errno = 0;
  char* end = nullptr;
  const unsigned long long value = std::strtoull(text.c_str(), &end, 10);
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || errno != 0 || value < min || value > max) {
    reject("%s is '%s', accepted is %llu to %llu", option.c_str(), text.c_str(), static_cast<unsigned long long>(min),
           static_cast<unsigned long long>(max));
  }
  return value;
}

int choice(const std::string& option, const std::string& text, const char* const (&words)[3]) {
  for (int i = 0; i < 3; ++i) {
    if (text == words[i]) return i;
  }
  reject("%s is '%s', accepted are %s, %s and %s", option.c_str(), text.c_str(), words[0], words[1], words[2]);
}

void take_emulator_option(Options& options, const std::string& name, const std::string& value) {
  if (!emulation::kEmulated) reject("%s belongs to the emulator, this runner is for a GPU", name.c_str());
  options.emulation = true;
  if (name == "--schedule") options.schedule = choice(name, value, {"ascending", "descending", "random"});
  if (name == "--async-mode") options.async_mode = choice(name, value, {"late", "early", "random"});
  if (name == "--seed") options.seed = number(name, value, 0, UINT64_MAX);
}

}  // namespace

const char kUsage[] =
    "usage: sparkctl-runner [OPTION…] FILE|FOLDER…    run case files, a folder's *.case files among them\n"
    "       sparkctl-runner --list                    the variants in this runner\n"
    "\n"
    "  --write DIR           keep each case's outputs there, as DIR/VARIANT/CASE.out\n"
    "  --repeat N            each case N times; the bits must stay the same\n"
    "  --schedule ORDER      ascending, descending or random order of the emulator's threads\n"
    "  --async-mode MODE     late, early or random: when bytes of the emulator's cp.async land\n"
    "  --seed S              of the emulator's random orders\n"
    "\n"
    "exit code: 0 all passed, 1 a case failed, 2 a file or the call is wrong, 3 no device\n";

Options parse_options(int argc, char** argv) {
  Options options;
  bool only_paths = false;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (only_paths || word.empty() || word[0] != '-') {
      options.paths.push_back(word);
      continue;
    }
    std::string value;
    const size_t equals = word.find('=');
    const bool has_value = equals != std::string::npos;
    if (has_value) {
      value = word.substr(equals + 1);
      word.resize(equals);
    }
    if (!has_value && (word == "--" || word == "--list" || word == "--help")) {
      only_paths = word == "--";
      options.list = options.list || word == "--list";
      options.help = options.help || word == "--help";
      continue;
    }
    const bool emulator = word == "--schedule" || word == "--async-mode" || word == "--seed";
    if (!emulator && word != "--write" && word != "--repeat") reject("unknown option '%s'", argv[i]);
    if (!has_value && ++i == argc) reject("%s needs a value", word.c_str());
    if (!has_value) value = argv[i];
    if (emulator) take_emulator_option(options, word, value);
    if (word == "--write") options.write = value;
    if (word == "--repeat") options.repeat = static_cast<int>(number(word, value, 1, 1000000));
    if (word == "--write" && value.empty()) reject("--write names no folder");
  }
  if (options.paths.empty() && !options.list && !options.help) reject("no case file is given; --help shows how");
  return options;
}

}  // namespace spark::runner
