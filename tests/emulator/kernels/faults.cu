// Kernels that must end in an error, and healthy twins that must not. `here: TAG` marks the line that the error names.
#include "harness.h"
#include "ptx/barrier.h"
#include "ptx/ldmatrix.h"
#include "ptx/mma.h"

using namespace spark;
using namespace spark::test;

namespace {

struct Params {
  float* out;
};

__global__ void some_threads_miss_the_barrier(const __grid_constant__ Params p) {
  if (threadIdx.x < 40) {
    __syncthreads();  // here: missing thread
  }
  p.out[threadIdx.x] = 1.0f;
}

__global__ void divergent_barrier(const __grid_constant__ Params p) {
  if (threadIdx.x < 16) {
    __syncthreads();  // here: divergent a
  } else {
    __syncthreads();  // here: divergent b
  }
  p.out[threadIdx.x] = 1.0f;
}

// Warps may reach one barrier from different lines; lanes of one warp may not.
__global__ void barrier_by_warps(const __grid_constant__ Params p) {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  p.out[threadIdx.x] = 1.0f;
}

__global__ void waits_cross(const __grid_constant__ Params p) {
  if (threadIdx.x < 32) {
    ptx::bar_sync(1, 64);  // here: crossed 1
    ptx::bar_sync(2, 64);
  } else {
    ptx::bar_sync(2, 64);  // here: crossed 2
    ptx::bar_sync(1, 64);
  }
  p.out[threadIdx.x] = 1.0f;
}

__global__ void barrier_counts_differ(const __grid_constant__ Params p) {
  if (threadIdx.x < 32) {
    ptx::bar_sync(1, 64);
  } else {
    ptx::bar_sync(1, 96);  // here: counts
  }
  p.out[threadIdx.x] = 1.0f;
}

__global__ void barrier_id_is_out_of_range(const __grid_constant__ Params) {
  ptx::bar_sync(16, 64);  // here: id
}

__global__ void barrier_waits_while_lanes_shuffle(const __grid_constant__ Params p) {
  float x = 0.0f;
  if (threadIdx.x % 32 < 8) {
    __syncthreads();  // here: barrier side
  } else {
    x = __shfl_xor_sync(kFullMask, 1.0f, 1);  // here: shuffle side
  }
  p.out[threadIdx.x] = x;
}

__global__ void exited_lane_in_mask(const __grid_constant__ Params p) {
  if (threadIdx.x == 31) return;
  p.out[threadIdx.x] = __shfl_xor_sync(kFullMask, 1.0f, 1);  // here: exited
}

__global__ void exited_lane_in_later_mask(const __grid_constant__ Params p) {
  if (threadIdx.x == 5) return;
  __syncwarp(threadIdx.x < 32 ? ~(1u << 5) : ~0u);
  p.out[threadIdx.x] = __shfl_xor_sync(kFullMask, 1.0f, 1);  // here: exited before
}

__global__ void exited_lanes_left_out_of_mask(const __grid_constant__ Params p) {
  if (threadIdx.x % 32 >= 8) return;
  p.out[threadIdx.x] = __shfl_xor_sync(0xffu, 1.0f, 1);
}

__global__ void own_lane_not_in_mask(const __grid_constant__ Params p) {
  p.out[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, 1.0f, 1);  // here: own lane
}

__global__ void shuffle_reads_outside_mask(const __grid_constant__ Params p) {
  if (threadIdx.x % 32 < 8) p.out[threadIdx.x] = __shfl_sync(0xffu, 1.0f, 9);  // here: source
}

__global__ void lanes_run_different_operations(const __grid_constant__ Params p) {
  if (threadIdx.x % 2 == 0) {
    p.out[threadIdx.x] = __shfl_xor_sync(kFullMask, 1.0f, 2);
  } else {
    p.out[threadIdx.x] = __ballot_sync(kFullMask, 1);  // here: operations
  }
}

__global__ void mma_in_divergent_code(const __grid_constant__ Params p) {
  const uint32_t a[4] = {}, b[2] = {};
  float d[4] = {};
  if (threadIdx.x % 32 < 16) {
    ptx::mma_m16n8k16<bf16>(d, a, b, d);
  } else {
    ptx::mma_m16n8k16<bf16>(d, a, b, d);  // here: divergent mma
  }
  p.out[threadIdx.x] = d[0];
}

__global__ void ldmatrix_misaligned(const __grid_constant__ Params p) {
  SHARED_ARRAY(bf16, tile_smem, 8 * 24);
  uint32_t r[1];
  ptx::ldmatrix_x1(r, tile_smem + threadIdx.x % 8 * 20);  // here: misaligned row
  p.out[threadIdx.x] = __uint_as_float(r[0]);
}

__global__ void ldmatrix_past_the_end(const __grid_constant__ Params p) {
  SHARED_ARRAY(bf16, tile_smem, 7 * 8);
  uint32_t r[1];
  ptx::ldmatrix_x1(r, tile_smem + threadIdx.x % 8 * 8);  // here: past the end
  p.out[threadIdx.x] = __uint_as_float(r[0]);
}

__global__ void partial_warp_with_full_mask(const __grid_constant__ Params p) {
  p.out[threadIdx.x] = __shfl_xor_sync(kFullMask, 1.0f, 1);  // here: partial warp
}

__global__ void write_past_shared_array(const __grid_constant__ Params p) {
  SHARED_ARRAY(float, first_smem, 64);
  SHARED_ARRAY(float, second_smem, 64);
  first_smem[threadIdx.x + 1] = 1.0f;
  second_smem[threadIdx.x] = 1.0f;
  p.out[threadIdx.x] = first_smem[threadIdx.x] + second_smem[threadIdx.x];
}

__global__ void too_much_static_shared(const __grid_constant__ Params p) {
  SHARED_ARRAY(float, big_smem, 12 * 1024);
  SHARED_ARRAY(float, more_smem, 1);  // here: static limit
  p.out[threadIdx.x] = big_smem[threadIdx.x] + more_smem[0];
}

__global__ void just_enough_static_shared(const __grid_constant__ Params p) {
  SHARED_ARRAY(float, big_smem, 12 * 1024);
  big_smem[threadIdx.x] = 1.0f;
  p.out[threadIdx.x] = big_smem[threadIdx.x];
}

__global__ void failed_assertion(const __grid_constant__ Params p) {
  assert(threadIdx.x < 63);  // here: assertion
  p.out[threadIdx.x] = 1.0f;
}

__global__ void trap_in_one_thread(const __grid_constant__ Params p) {
  if (threadIdx.x == 17) __trap();  // here: trap
  p.out[threadIdx.x] = 1.0f;
}

__global__ void helper_sum_in_divergent_code(const __grid_constant__ Params p) {
  if (threadIdx.x % 32 != 3) {
    p.out[threadIdx.x] = warp_sum(1.0f);  // here: helper
  }
}

__global__ void spins_for_ever(const __grid_constant__ Params p) {
  if (threadIdx.x == 0) {
    while (atomicAdd(p.out + 1, 0.0f) == 0.0f) __nanosleep(100);
  }
}

// Thread 0 runs first and needs thread 63 to move on.
__global__ void spins_until_another_thread_writes(const __grid_constant__ Params p) {
  if (threadIdx.x == 0) {
    while (atomicAdd(p.out + 1, 0.0f) == 0.0f) {
    }
  }
  if (threadIdx.x == 63) atomicExch(p.out + 1, 1.0f);
}

Status run(void (*kernel)(Params), dim3 block = dim3(64), dim3 grid = dim3(1), size_t dynamic_smem = 0) {
  float* out = make_buffer<float>(4096);
  const Status status = finished(launch(kernel, LaunchConfig{grid, block, dynamic_smem}, Params{out}));
  show("out", out, 64);
  return status;
}

}  // namespace

#define FAULT(name)   \
  CASE(name) {        \
    return run(name); \
  }

FAULT(some_threads_miss_the_barrier)
FAULT(divergent_barrier)
FAULT(barrier_by_warps)
FAULT(waits_cross)
CASE(barrier_counts_differ) {
  return run(barrier_counts_differ, dim3(96));
}
FAULT(barrier_id_is_out_of_range)
FAULT(barrier_waits_while_lanes_shuffle)
FAULT(exited_lane_in_mask)
FAULT(exited_lane_in_later_mask)
FAULT(exited_lanes_left_out_of_mask)
FAULT(own_lane_not_in_mask)
FAULT(shuffle_reads_outside_mask)
FAULT(lanes_run_different_operations)
FAULT(mma_in_divergent_code)
FAULT(ldmatrix_misaligned)
FAULT(ldmatrix_past_the_end)
FAULT(write_past_shared_array)
FAULT(too_much_static_shared)
FAULT(just_enough_static_shared)
FAULT(failed_assertion)
FAULT(trap_in_one_thread)
FAULT(helper_sum_in_divergent_code)
FAULT(spins_for_ever)
FAULT(spins_until_another_thread_writes)
CASE(partial_warp_with_full_mask) {
  return run(partial_warp_with_full_mask, dim3(48));
}
CASE(too_many_threads) {
  return run(barrier_by_warps, dim3(1025));
}
CASE(no_blocks) {
  return run(barrier_by_warps, dim3(64), dim3(0));
}
CASE(too_much_dynamic_shared) {
  return run(barrier_by_warps, dim3(64), dim3(1), 227 * 1024 + 1);
}
CASE(just_enough_dynamic_shared) {
  return run(barrier_by_warps, dim3(64), dim3(1), 227 * 1024);
}
CASE(static_and_dynamic_together_too_much) {
  return run(just_enough_static_shared, dim3(64), dim3(1), 227 * 1024 - 48 * 1024 + 16);
}

// The named template-id with commas must come back whole in errors.
namespace {
template <typename T, int kStep>
__global__ void templated(const __grid_constant__ Params p) {
  if (threadIdx.x >= kStep) __syncthreads();
  p.out[threadIdx.x] = sizeof(T);
}
}  // namespace

CASE(name_of_a_template) {
  return SPARK_LAUNCH(templated<bf16, 8>, LaunchConfig{dim3(3), dim3(32)}, Params{make_buffer<float>(64)});
}
