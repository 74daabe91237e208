// Faults between blocks and between kernels. `here: TAG` marks a line that the report names.
#include "cases.h"
#include "ptx/griddepcontrol.h"

using namespace spark;
using namespace spark::broken;

namespace {

// Tiles of 32 that advance by 31.
template <bool BROKEN>
__global__ void blocks_write_one_element(const int* in, int* out) {
  const int i = blockIdx.x * (BROKEN ? 31 : 32) + threadIdx.x;
  out[i] = in[i];  // here: blocks_write_one_element
}

// The block that comes last sums the others' partials: without a fence it may count a block whose partial is not there.
template <bool BROKEN>
__global__ void last_block_without_fence(const int* in, int* partial, int* counter, int* out) {
  if (threadIdx.x != 0) return;
  int sum = 0;
  for (int i = 0; i < 8; ++i) sum += in[8 * blockIdx.x + i];
  partial[blockIdx.x] = sum;  // here: last_block_without_fence write
  if constexpr (!BROKEN) __threadfence();
  if (atomicAdd(counter, 1) + 1 < static_cast<int>(gridDim.x)) return;
  __threadfence();
  sum = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) sum += partial[i];  // here: last_block_without_fence read
  out[0] = sum;
}

// A kernel that lets the next one start at once, and goes on.
__global__ void first_doubles(const int* in, int* twice) {
  ptx::griddepcontrol_launch_dependents();
  twice[threadIdx.x] = 2 * in[threadIdx.x];  // here: read_before_dependence_wait write
}
template <bool BROKEN>
__global__ void then_negates(const int* twice, int* out) {
  if constexpr (!BROKEN) ptx::griddepcontrol_wait();
  out[threadIdx.x] = -twice[threadIdx.x];  // here: read_before_dependence_wait read
  if constexpr (BROKEN) ptx::griddepcontrol_wait();
}

// The same in one block of several; the others wait.
__global__ void blocks_double(const int* in, int* twice) {
  const int i = blockIdx.x * 32 + threadIdx.x;
  twice[i] = 2 * in[i];  // here: one_block_reads_before_dependence_wait write
}
template <bool BROKEN>
__global__ void blocks_negate(const int* twice, int* out) {
  const int i = blockIdx.x * 32 + threadIdx.x;
  if (!BROKEN || blockIdx.x != 2) ptx::griddepcontrol_wait();
  out[i] = -twice[i];  // here: one_block_reads_before_dependence_wait read
}

__global__ void first_reads(const int* state, int* out) {
  ptx::griddepcontrol_launch_dependents();
  out[threadIdx.x] = state[threadIdx.x];  // here: write_before_dependence_wait read
}
template <bool BROKEN>
__global__ void then_clears(int* state) {
  if constexpr (!BROKEN) ptx::griddepcontrol_wait();
  state[threadIdx.x] = 0;  // here: write_before_dependence_wait write
  if constexpr (BROKEN) ptx::griddepcontrol_wait();
}

// The kernel ahead is somebody else's: its output is this kernel's input.
template <bool BROKEN>
__global__ void negates_input(const int* in, int* out) {
  if constexpr (!BROKEN) ptx::griddepcontrol_wait();
  out[threadIdx.x] = -in[threadIdx.x];  // here: input_read_before_dependence_wait
}

FAULT(blocks_write_one_element) {
  const program::Buffer<int> in("in", count_up(64));
  const program::Buffer<int> out("out", BROKEN ? 63 : 64);
  program::run(SPARK_LAUNCH(blocks_write_one_element<BROKEN>, LaunchConfig{2, 32}, in.data(), out.data()));
  expect_values(out, [](int i) { return i; });
}
FAULT(last_block_without_fence) {
  const program::Buffer<int> in("in", count_up(32));
  const program::Buffer<int> counter("counter", std::vector<int>{0}, program::Use::in_out);
  const Workspace<int> partial("partial", 4);
  const program::Buffer<int> out("out", 1);
  program::run(SPARK_LAUNCH(last_block_without_fence<BROKEN>, LaunchConfig{4, 32}, in.data(), partial.data(),
                            counter.data(), out.data()));
  expect_values(out, [](int) { return 496; });
}
FAULT(read_before_dependence_wait) {
  const program::Buffer<int> in("in", count_up(32));
  const Workspace<int> twice("twice", 32);
  const program::Buffer<int> out("out", 32);
  program::run(SPARK_LAUNCH(first_doubles, LaunchConfig{1, 32}, in.data(), twice.data()));
  LaunchConfig config{1, 32};
  config.dependent = true;
  program::run(SPARK_LAUNCH(then_negates<BROKEN>, config, twice.data(), out.data()));
  expect_values(out, [](int i) { return -2 * i; });
}
FAULT(one_block_reads_before_dependence_wait) {
  const program::Buffer<int> in("in", count_up(128));
  const Workspace<int> twice("twice", 128);
  const program::Buffer<int> out("out", 128);
  program::run(SPARK_LAUNCH(blocks_double, LaunchConfig{4, 32}, in.data(), twice.data()));
  LaunchConfig config{4, 32};
  config.dependent = true;
  program::run(SPARK_LAUNCH(blocks_negate<BROKEN>, config, twice.data(), out.data()));
  expect_values(out, [](int i) { return -2 * i; });
}
FAULT(input_read_before_dependence_wait) {
  const program::Buffer<int> in("in", count_up(32));
  const program::Buffer<int> out("out", 32);
  runner::emulation::written_ahead(in.data());
  LaunchConfig config{1, 32};
  config.dependent = true;
  program::run(SPARK_LAUNCH(negates_input<BROKEN>, config, in.data(), out.data()));
  expect_values(out, [](int i) { return -i; });
}
FAULT(write_before_dependence_wait) {
  const program::Buffer<int> state("state", count_up(32), program::Use::in_out);
  const program::Buffer<int> out("out", 32);
  program::run(SPARK_LAUNCH(first_reads, LaunchConfig{1, 32}, state.data(), out.data()));
  LaunchConfig config{1, 32};
  config.dependent = true;
  program::run(SPARK_LAUNCH(then_clears<BROKEN>, config, state.data()));
  expect_values(out, [](int i) { return i; });
}

}  // namespace
