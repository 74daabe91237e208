// The families that the runner can call. A new one is a function that fills its params struct, and a line in the table.
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

// WrongInput for a family that is not in the table.
const Family& family_named(const std::string& name);

}  // namespace spark::runner
