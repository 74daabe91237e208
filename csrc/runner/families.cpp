// The table of families.
#include "runner/families.h"

namespace spark::runner {
namespace {

constexpr Family kFamilies[] = {
    {"decode", run_decode, judge_attention},
    {"paged_decode", run_paged_decode, judge_attention},
    {"prefill", run_prefill, judge_attention},
    {"combine", run_combine, judge_attention},
    {"merge_states", run_merge_states, judge_attention},
    {"bench", run_stream_read, judge_checksum},
};

}  // namespace

const Family& family_named(const std::string& name) {
  for (const Family& family : kFamilies) {
    if (name == family.name) return family;
  }
  reject("this runner cannot call family '%s'", name.c_str());
}

}  // namespace spark::runner
