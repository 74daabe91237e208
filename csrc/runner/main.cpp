// The standalone test runner: case files in, a verdict a case out. No Python, no torch.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <vector>

#include "runner/case_file.h"
#include "runner/emulation.h"
#include "runner/families.h"
#include "runner/memory.h"
#include "runner/options.h"

namespace spark::runner {
namespace {

constexpr int kAllPassed = 0, kCaseFailed = 1, kWrongInput = 2, kNoDevice = 3;

struct Counts {
  int cases = 0;
  int failed = 0;
  int unusable = 0;  // files
  int left = 0;      // after the device was lost
};

int list_variants() {
  std::vector<Variant> variants = variant_table();
  std::sort(variants.begin(), variants.end(),
            [](const Variant& a, const Variant& b) { return std::strcmp(a.name, b.name) < 0; });
  for (const Variant& variant : variants) {
    std::printf("%s family=%s threads=%d dynamic_smem=%zu\n", variant.name, variant.family, variant.block_threads,
                variant.dynamic_smem);
  }
  return kAllPassed;
}

std::vector<std::string> case_files(const std::vector<std::string>& paths) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    if (!fs::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    const size_t before = files.size();
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path)) {
      if (entry.path().extension() == ".case") files.push_back(entry.path().string());
    }
    if (files.size() == before) reject("%s holds no .case file", path.c_str());
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end());
  }
  return files;
}

// Contiguous copies of what was written, in the format of the case files.
void write_outputs(Call& call, const std::string& folder) {
  CaseFile result;
  result.case_id = call.file().case_id;
  result.variant = call.file().variant;
  result.family = call.file().family;
  for (const Output& output : call.outputs()) {
    TensorEntry entry = output.entry();
    const size_t element = size_of(entry.type);
    const Block block{result.data.size(), static_cast<size_t>(entry.count()) * element};
    std::vector<int64_t> strides(entry.shape.size(), 1);
    for (size_t i = strides.size(); i-- > 1;) strides[i - 1] = strides[i] * entry.shape[i];
    for (int64_t i = 0; i < entry.count(); ++i) {
      int64_t rest = i, offset = 0;
      for (size_t axis = 0; axis < strides.size(); ++axis) {
        offset += rest / strides[axis] * entry.strides[axis];
        rest %= strides[axis];
      }
      result.data.insert(result.data.end(), output.fetched(offset), output.fetched(offset) + element);
    }
    entry.strides = strides;
    entry.block = static_cast<int>(result.blocks.size());
    entry.offset = 0;
    result.blocks.push_back(block);
    result.outputs.push_back(entry);
  }
  write_case_file(folder + "/" + result.variant + "/" + result.case_id + ".out", result);
}

std::string launch_fault(Call& call, int64_t counted) {
  const int64_t expected = call.integer("launches", 0, 1000);
  if (!emulation::kEmulated || counted == expected) return {};
  return "the emulator ran " + std::to_string(counted) + " kernels, " + std::to_string(expected) +
         " were expected: the output is not the kernel's";
}

Verdict run_once(Call& call, const Family& family) {
  const int64_t before = emulation::launch_count();
  call.reset();
  family.run(call);
  device::wait();
  for (Output& output : call.outputs()) output.fetch();
  Verdict verdict = family.judge(call);
  const std::string fault = launch_fault(call, emulation::launch_count() - before);
  if (!fault.empty()) verdict.failure = fault;
  for (const Output& output : call.outputs()) {
    if (verdict.failure.empty()) verdict.failure = output.stray_writes();
  }
  return verdict;
}

// The first run against the reference, every further one against the first, bit by bit.
Verdict run_repeatedly(Call& call, const Family& family, int repeat) {
  Verdict verdict = run_once(call, family);
  std::vector<std::vector<char>> first;
  for (const Output& output : call.outputs()) first.push_back(output.copy());
  for (int turn = 2; turn <= repeat && verdict.failure.empty(); ++turn) {
    verdict = run_once(call, family);
    for (size_t i = 0; i < first.size() && verdict.failure.empty(); ++i) {
      if (first[i] == call.outputs()[i].copy()) continue;
      verdict = {HUGE_VAL, "run " + std::to_string(turn) + " gave other bits than the first"};
    }
  }
  return verdict;
}

// A case is one line.
std::string on_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// WrongInput where the file is to blame; whatever else goes wrong is a failure of the case.
Verdict run_case(const CaseFile& file, const Options& options) {
  try {
    const Family& family = family_named(file.family);
    Call call(file);
    Verdict verdict = run_repeatedly(call, family, options.repeat);
    if (!options.write.empty()) write_outputs(call, options.write);
    return verdict;
  } catch (const WrongInput&) {
    throw;
  } catch (const std::bad_alloc&) {
    return {HUGE_VAL, "no memory for the case"};
  } catch (const std::exception& error) {
    return {HUGE_VAL, error.what()};
  }
}

void run_file(const std::string& path, const Options& options, Counts& counts) {
  try {
    const CaseFile file = read_case_file(path);
    const Verdict verdict = run_case(file, options);
    ++counts.cases;
    counts.failed += !verdict.failure.empty();
    std::printf("%s %.4g %s %s%s%s\n", verdict.failure.empty() ? "pass" : "FAIL", verdict.worst, file.variant.c_str(),
                file.case_id.c_str(), verdict.failure.empty() ? "" : ": ", on_one_line(verdict.failure).c_str());
  } catch (const WrongInput& error) {
    ++counts.unusable;
    std::fprintf(stderr, "error: %s: %s\n", path.c_str(), error.what());
  } catch (const std::bad_alloc&) {
    ++counts.unusable;
    std::fprintf(stderr, "error: %s: no memory to read it\n", path.c_str());
  }
  std::fflush(stdout);
}

int run(const Options& options) {
  const std::vector<std::string> files = case_files(options.paths);
  const std::string absence = device::absence();
  if (!absence.empty()) {
    std::fprintf(stderr, "error: no CUDA device: %s\n", absence.c_str());
    return kNoDevice;
  }
  emulation::limit_shared_memory();
  if (options.emulation) emulation::configure(options.schedule, options.async_mode, options.seed);
  Counts counts;
  for (const std::string& file : files) {
    run_file(file, options, counts);
    if (!device::is_lost()) continue;
    counts.left = static_cast<int>(files.size()) - counts.cases - counts.unusable;
    std::fprintf(stderr, "error: the device was lost, %d cases did not run\n", counts.left);
    break;
  }
  std::printf("%d cases, %d failed", counts.cases, counts.failed);
  if (counts.unusable > 0) std::printf(", %d files could not be used", counts.unusable);
  if (counts.left > 0) std::printf(", %d did not run", counts.left);
  std::printf("\n");
  return counts.unusable > 0 ? kWrongInput : counts.failed + counts.left > 0 ? kCaseFailed : kAllPassed;
}

}  // namespace
}  // namespace spark::runner

int main(int argc, char** argv) {
  using namespace spark::runner;
  try {
    const Options options = parse_options(argc, argv);
    if (options.help) return std::fputs(kUsage, stdout) < 0;
    return options.list ? list_variants() : run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return kWrongInput;
  }
}
