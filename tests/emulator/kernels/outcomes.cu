// Kernels of the family bench that go wrong in one way each, for the standalone runner. Each is given the checksum of
// all data, which it must keep in word 0.
#include <cstdlib>

#include "bench/params.h"
#include "common/launch.h"
#include "common/memory.h"
#include "common/variant.h"
#include "ptx/cp_async.h"

namespace spark {
namespace {

enum Fault { NONE, BEFORE, BEHIND, RACY, LARGE_BLOCK, NO_LAUNCH, ABORT };

template <Fault FAULT>
__global__ void outcome_kernel(StreamReadParams p) {
  static uint32_t turn = 0;
  uint32_t sum = 0;
  const auto* words = static_cast<const uint32_t*>(p.data);
  for (int64_t i = 0; i < 4 * p.chunks; ++i) sum ^= words[i];
  for (int32_t i = 1; i < p.blocks; ++i) p.checksum[i] = 0;
  p.checksum[0] = sum;
  if (FAULT == BEFORE) p.checksum[-2] = 1;
  if (FAULT == BEHIND) p.checksum[p.blocks] = p.checksum[p.blocks + 1] = 1;
  if (FAULT == RACY) p.checksum[0] = sum ^ (p.checksum[1] = ++turn);
  if (FAULT == ABORT) std::abort();
}

template <Fault FAULT>
Status launch_outcome(const void* params, void*) {
  const StreamReadParams& p = *static_cast<const StreamReadParams*>(params);
  if (FAULT == NO_LAUNCH) {
    for (int32_t i = 0; i < p.blocks; ++i) p.checksum[i] = 0;
    return ok();
  }
  LaunchConfig config;
  config.grid = dim3(1);
  config.block = dim3(FAULT == LARGE_BLOCK ? 2048 : 1);
  return SPARK_LAUNCH(outcome_kernel<FAULT>, config, p);
}

constexpr int kOrderedThreads = 64;

// Not a fault that is found but what the settings change: word 0 is the thread and word 1 the block that wrote last,
// the others what each thread of it read of its copy before waiting for it.
__global__ void ordered_kernel(StreamReadParams p) {
  SHARED_ARRAY(uint32_t, words_smem, 4 * kOrderedThreads);
  const int i = threadIdx.x;
  ptx::cp_async_cg_16(words_smem + 4 * i, static_cast<const uint32_t*>(p.data) + 4 * i, true);
  ptx::cp_async_commit_group();
  p.checksum[0] = i;
  p.checksum[1] = blockIdx.x;
  p.checksum[2 + i] = words_smem[4 * i];
  ptx::cp_async_wait_group<0>();
}

Status launch_ordered(const void* params, void*) {
  LaunchConfig config;
  config.grid = dim3(5);
  config.block = dim3(kOrderedThreads);
  return SPARK_LAUNCH(ordered_kernel, config, *static_cast<const StreamReadParams*>(params));
}

const VariantRegistration registrations[] = {
    VariantRegistration({"outcome.good", "bench", launch_outcome<NONE>, 1, 0}),
    VariantRegistration({"outcome.before", "bench", launch_outcome<BEFORE>, 1, 0}),
    VariantRegistration({"outcome.behind", "bench", launch_outcome<BEHIND>, 1, 0}),
    VariantRegistration({"outcome.racy", "bench", launch_outcome<RACY>, 1, 0}),
    VariantRegistration({"outcome.large_block", "bench", launch_outcome<LARGE_BLOCK>, 2048, 0}),
    VariantRegistration({"outcome.no_launch", "bench", launch_outcome<NO_LAUNCH>, 1, 0}),
    VariantRegistration({"outcome.ordered", "bench", launch_ordered, kOrderedThreads, 0}),
    VariantRegistration({"outcome.abort", "bench", launch_outcome<ABORT>, 1, 0}),
};

}  // namespace
}  // namespace spark
