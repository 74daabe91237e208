// The tolerance rule of sparkctl/testing/compare.py over the references that a case file brings along.
#pragma once

#include <string>

#include "runner/call.h"

namespace spark::runner {

struct Verdict {
  double worst = 0;     // the largest error as a share of what is allowed: above 1 the case fails
  std::string failure;  // empty: passed
};

// Expected `out`, `allowed` (of each row) and `lse`; values rel_l2 and lse_error.
Verdict judge_attention(Call& call);

// Expected `checksum`: the XOR of the output's words.
Verdict judge_checksum(Call& call);

}  // namespace spark::runner
