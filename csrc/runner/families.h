// The families that the runner can call. A new one is a function that fills its params struct, in a file of its own or
// beside its like, and a line in the table.
#pragma once

#include <string>

#include "runner/call.h"
#include "runner/compare.h"

namespace spark::runner {

struct Family {
  const char* name;
  void (*run)(Call&);
  Verdict (*judge)(Call&);  // after the outputs are fetched
};

void run_decode(Call& call);
void run_paged_decode(Call& call);
void run_prefill(Call& call);
void run_combine(Call& call);
void run_merge_states(Call& call);
void run_stream_read(Call& call);

// WrongInput for a family that is not in the table.
const Family& family_named(const std::string& name);

}  // namespace spark::runner
