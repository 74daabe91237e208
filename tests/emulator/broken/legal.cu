// Odd but legal: what no check may report.
#include "cases.h"
#include "ptx/barrier.h"
#include "ptx/cp_async.h"
#include "ptx/griddepcontrol.h"

using namespace spark;
using namespace spark::broken;

namespace {

// Every thread of a block takes the same branch.
__global__ void barrier_in_a_uniform_branch(const int* in, int* out) {
  SHARED_ARRAY(int, tile_smem, 64);
  const int t = threadIdx.x, b = blockIdx.x;
  int value = in[64 * b + t];
  if (b % 2 == 1) {
    tile_smem[t] = value;
    __syncthreads();
    value = tile_smem[63 - t];
  }
  out[64 * b + t] = value;
}

// PTX: a barrier waits for the threads that have not exited; here the one that leaves is a whole warp.
__global__ void warp_exits_before_barriers(const int* in, int* out) {
  SHARED_ARRAY(int, tile_smem, 64);
  const int t = threadIdx.x;
  if (t >= 64) return;
  int value = in[t];
  for (int step = 0; step < 2; ++step) {
    tile_smem[t] = value;
    __syncthreads();
    value = tile_smem[t ^ 32] + 1;
    __syncthreads();
  }
  out[t] = value;
}

// The same by a count.
__global__ void warp_exits_before_counted_barriers(const int* in, int* out) {
  SHARED_ARRAY(int, tile_smem, 64);
  const int t = threadIdx.x;
  if (t >= 64) return;
  tile_smem[t] = in[t];
  ptx::bar_sync(1, 64);
  out[t] = tile_smem[63 - t];
}

__global__ void warp_synchronous_exchange(const int* in, int* out) {
  SHARED_ARRAY(int, tile_smem, 64);
  const int t = threadIdx.x;
  int value = in[t];
  for (int step = 1; step < 32; step *= 2) {
    tile_smem[t] = value;
    __syncwarp();
    value += tile_smem[t ^ step];
    __syncwarp();
  }
  out[t] = value;
}

// Two tiles of int, then one of short over the same bytes.
__global__ void dynamic_memory_of_two_types(const int* in, int* out) {
  DYNAMIC_SHARED(int, tile_smem);
  DYNAMIC_SHARED(short, narrow_smem);
  const int t = threadIdx.x;
  int sum = 0;
  for (int step = 0; step < 2; ++step) {
    tile_smem[t] = in[t] + step;
    __syncthreads();
    sum += tile_smem[63 - t];
    __syncthreads();
  }
  narrow_smem[2 * t] = static_cast<short>(in[t]);
  narrow_smem[2 * t + 1] = 0;
  __syncthreads();
  out[t] = sum + narrow_smem[2 * (63 - t)];
}

// An atomic counter, with a fence before it and one behind it.
__global__ void last_block_sums(const int* in, int* partial, int* counter, int* out) {
  SHARED_ARRAY(int, last_smem, 1);
  const int t = threadIdx.x;
  partial[32 * blockIdx.x + t] = in[32 * blockIdx.x + t];
  __syncthreads();
  if (t == 0) {
    __threadfence();
    last_smem[0] = atomicAdd(counter, 1) + 1 == static_cast<int>(gridDim.x) ? 1 : 0;
    __threadfence();
  }
  __syncthreads();
  if (last_smem[0] == 0) return;
  int sum = 0;
  for (unsigned b = 0; b < gridDim.x; ++b) sum += partial[32 * b + t];
  out[t] = sum;
}

// Warp 1 waits for warp 0 by a volatile flag.
__global__ void volatile_flag(const int* in, int* out) {
  SHARED_ARRAY(int, data_smem, 32);
  SHARED_ARRAY(int, flag_smem, 1);
  volatile int* const flag = flag_smem;
  const int t = threadIdx.x;
  if (t == 0) *flag = 0;
  __syncthreads();
  if (t < 32) {
    data_smem[t] = in[t];
    __syncwarp();
    if (t == 0) {
      __threadfence_block();
      *flag = 1;
    }
  } else {
    while (*flag == 0) __nanosleep(20);
    __threadfence_block();
    out[t - 32] = data_smem[63 - t];
  }
}

// Four groups of eight lanes, each as often as it likes.
__global__ void groups_of_lanes(const int* in, int* out) {
  const int t = threadIdx.x;
  const unsigned group = 0xffu << (t & 24);
  float value = static_cast<float>(in[t] % 8);
  for (int step = 0; step <= t / 8; ++step) value = group_sum<8>(value, group);
  out[t] = static_cast<int>(value);
}

// Neighbours write the bytes of one word, and the halves of one.
__global__ void adjacent_bytes(const int* in, int* out) {
  SHARED_ARRAY(unsigned char, byte_smem, 64);
  SHARED_ARRAY(bf16, half_smem, 64);
  const int t = threadIdx.x;
  byte_smem[t] = static_cast<unsigned char>(in[t]);
  half_smem[t] = from_float<bf16>(static_cast<float>(in[t]));
  __syncthreads();
  const int at = 63 - t;
  const uint32_t word = reinterpret_cast<const uint32_t*>(byte_smem)[at / 4];
  const float2 pair = unpack2<bf16>(reinterpret_cast<const uint32_t*>(half_smem)[at / 2]);
  out[t] = static_cast<int>(word >> (8 * (at % 4)) & 0xffu) + static_cast<int>(at % 2 == 0 ? pair.x : pair.y);
}

// Written by sixteen bytes, read by four.
__global__ void vectors_then_words(const int* in, int* out) {
  SHARED_ARRAY(int, tile_smem, 256);
  const int t = threadIdx.x;
  reinterpret_cast<int4*>(tile_smem)[t] = reinterpret_cast<const int4*>(in)[t];
  __syncthreads();
  out[t] = tile_smem[255 - t];
}

// Rows past the end become zero, and their sources are not read.
__global__ void zero_fill_past_the_end(const int* in, int* out) {
  SHARED_ARRAY(int, tile_smem, 128);
  const int t = threadIdx.x;
  ptx::cp_async_cg_16(tile_smem + 4 * t, in + 4 * t, t < 20);
  ptx::cp_async_commit_group();
  ptx::cp_async_wait_group<0>();
  __syncthreads();
  out[t] = tile_smem[127 - 4 * t];
}

// What a thread copied itself it may use once it has waited.
__global__ void own_copies_need_no_barrier(const int* in, int* out) {
  SHARED_ARRAY(int, ring_smem, 2 * 128);
  const int t = threadIdx.x;
  int sum = 0;
  ptx::cp_async_cg_16(ring_smem + 4 * t, in + 4 * t, true);
  ptx::cp_async_commit_group();
  for (int tile = 0; tile < 4; ++tile) {
    if (tile < 3) {
      ptx::cp_async_cg_16(ring_smem + (tile + 1) % 2 * 128 + 4 * t, in + 128 * (tile + 1) + 4 * t, true);
    }
    ptx::cp_async_commit_group();
    ptx::cp_async_wait_group<1>();
    sum += ring_smem[tile % 2 * 128 + 4 * t + 3];
  }
  out[t] = sum;
}

// A ring of three stages with one barrier a tile: the stage that it refills was read before that barrier.
__global__ void ring_with_one_barrier(const int* in, int* out) {
  constexpr int TILES = 5, STAGES = 3;
  SHARED_ARRAY(int, ring_smem, STAGES * 256);
  const int t = threadIdx.x;
  const auto copy = [&](int tile) {
    if (tile < TILES) {
      ptx::cp_async_cg_16(ring_smem + tile % STAGES * 256 + 4 * t, in + 256 * tile + 4 * t, true);
    }
    ptx::cp_async_commit_group();
  };
  int sum = 0;
  copy(0);
  copy(1);
  for (int tile = 0; tile < TILES; ++tile) {
    ptx::cp_async_wait_group<1>();
    __syncthreads();
    copy(tile + 2);
    sum += ring_smem[tile % STAGES * 256 + 255 - 4 * t];
  }
  out[t] = sum;
}

// A barrier that also counts; those behind it may read what was written before it.
__global__ void barrier_that_counts(const int* in, int* out) {
  SHARED_ARRAY(int, tile_smem, 64);
  const int t = threadIdx.x;
  tile_smem[t] = in[t];
  const int count = __syncthreads_count(in[t] < 10);
  out[t] = tile_smem[63 - t] + count;
}

// One warp fills, the other empties; "full" and "empty" are named barriers at which one of them only arrives.
__global__ void producer_and_consumer(const int* in, int* out) {
  constexpr int TILES = 4, FULL = 1, EMPTY = 2;
  SHARED_ARRAY(int, tile_smem, 32);
  const int t = threadIdx.x;
  if (t < 32) {
    for (int tile = 0; tile < TILES; ++tile) {
      ptx::bar_sync(EMPTY, 64);
      tile_smem[t] = in[32 * tile + t];
      ptx::bar_arrive(FULL, 64);
    }
    return;
  }
  int sum = 0;
  ptx::bar_arrive(EMPTY, 64);
  for (int tile = 0; tile < TILES; ++tile) {
    ptx::bar_sync(FULL, 64);
    sum += tile_smem[63 - t];
    if (tile + 1 < TILES) ptx::bar_arrive(EMPTY, 64);
  }
  out[t - 32] = sum;
}

// Warps may meet in one barrier from different lines.
__global__ void barrier_from_two_lines(const int* in, int* out) {
  SHARED_ARRAY(int, tile_smem, 64);
  const int t = threadIdx.x;
  if (t < 32) {
    tile_smem[t] = in[t];
    __syncthreads();
  } else {
    tile_smem[t] = in[t] + 1;
    __syncthreads();
  }
  out[t] = tile_smem[63 - t];
}

// Before it waits for the kernel ahead, a kernel may read what that one does not write.
__global__ void first_adds_one(const int* in, int* more) {
  ptx::griddepcontrol_launch_dependents();
  more[threadIdx.x] = in[threadIdx.x] + 1;
}
__global__ void then_scales(const int* more, const int* scale, int* out) {
  const int factor = scale[threadIdx.x];
  ptx::griddepcontrol_wait();
  out[threadIdx.x] = factor * more[threadIdx.x];
}

// Blocks that wait, and then change what the kernel ahead changed, also to what poison looks like.
__device__ void add_in_place(const int* in, int* sums, int* marks) {
  const int b = blockIdx.x, i = b * 32 + threadIdx.x;
  sums[i] += in[i];
  if (threadIdx.x == 0) marks[b] = b < 3 ? marks[b] + 1 : -1;
}
__global__ void first_adds_in_place(const int* in, int* sums, int* marks) {
  add_in_place(in, sums, marks);
}
__global__ void then_adds_in_place(const int* in, int* sums, int* marks) {
  ptx::griddepcontrol_wait();
  add_in_place(in, sums, marks);
}

LEGAL(barrier_in_a_uniform_branch) {
  run_ints("barrier_in_a_uniform_branch", barrier_in_a_uniform_branch, {2, 64}, 128, 128,
           [](int i) { return i < 64 ? i : 191 - i; });
}
LEGAL(warp_exits_before_barriers) {
  run_ints("warp_exits_before_barriers", warp_exits_before_barriers, {1, 96}, 64, 64, [](int i) { return i + 2; });
}
LEGAL(warp_exits_before_counted_barriers) {
  run_ints("warp_exits_before_counted_barriers", warp_exits_before_counted_barriers, {1, 96}, 64, 64,
           [](int i) { return 63 - i; });
}
LEGAL(warp_synchronous_exchange) {
  run_ints("warp_synchronous_exchange", warp_synchronous_exchange, {1, 64}, 64, 64,
           [](int i) { return i < 32 ? 496 : 496 + 1024; });
}
LEGAL(dynamic_memory_of_two_types) {
  run_ints("dynamic_memory_of_two_types", dynamic_memory_of_two_types, {1, 64, 256}, 64, 64,
           [](int i) { return 3 * (63 - i) + 1; });
}
LEGAL(last_block_sums) {
  const program::Buffer<int> in("in", count_up(128));
  const program::Buffer<int> counter("counter", std::vector<int>{0}, program::Use::in_out);
  const Workspace<int> partial("partial", 128);
  const program::Buffer<int> out("out", 32);
  program::run(
      SPARK_LAUNCH(last_block_sums, LaunchConfig{4, 32}, in.data(), partial.data(), counter.data(), out.data()));
  expect_values(out, [](int i) { return 4 * i + 192; });
}
LEGAL(volatile_flag) {
  run_ints("volatile_flag", volatile_flag, {1, 64}, 32, 32, [](int i) { return 31 - i; });
}
LEGAL(groups_of_lanes) {
  run_ints("groups_of_lanes", groups_of_lanes, {1, 32}, 32, 32, [](int i) { return 28 << (i / 8 * 3); });
}
LEGAL(adjacent_bytes) {
  run_ints("adjacent_bytes", adjacent_bytes, {1, 64}, 64, 64, [](int i) { return 2 * (63 - i); });
}
LEGAL(vectors_then_words) {
  run_ints("vectors_then_words", vectors_then_words, {1, 64}, 256, 64, [](int i) { return 255 - i; });
}
LEGAL(zero_fill_past_the_end) {
  run_ints("zero_fill_past_the_end", zero_fill_past_the_end, {1, 32}, 80, 32,
           [](int i) { return 127 - 4 * i < 80 ? 127 - 4 * i : 0; });
}
LEGAL(own_copies_need_no_barrier) {
  run_ints("own_copies_need_no_barrier", own_copies_need_no_barrier, {1, 32}, 512, 32,
           [](int i) { return 4 * (4 * i + 3) + 6 * 128; });
}
LEGAL(ring_with_one_barrier) {
  run_ints("ring_with_one_barrier", ring_with_one_barrier, {1, 64}, 1280, 64,
           [](int i) { return 5 * (255 - 4 * i) + 10 * 256; });
}
LEGAL(barrier_that_counts) {
  run_ints("barrier_that_counts", barrier_that_counts, {1, 64}, 64, 64, [](int i) { return 63 - i + 10; });
}
LEGAL(producer_and_consumer) {
  run_ints("producer_and_consumer", producer_and_consumer, {1, 64}, 128, 32,
           [](int i) { return 4 * (31 - i) + 6 * 32; });
}
LEGAL(barrier_from_two_lines) {
  run_ints("barrier_from_two_lines", barrier_from_two_lines, {1, 64}, 64, 64,
           [](int i) { return i < 32 ? 63 - i + 1 : 63 - i; });
}
LEGAL(works_in_place_after_dependence_wait) {
  const program::Buffer<int> in("in", count_up(128));
  const program::Buffer<int> sums("sums", std::vector<int>(128, 1), program::Use::in_out);
  const program::Buffer<int> marks("marks", std::vector<int>(4, 0), program::Use::in_out);
  program::run(SPARK_LAUNCH(first_adds_in_place, LaunchConfig{4, 32}, in.data(), sums.data(), marks.data()));
  LaunchConfig config{4, 32};
  config.dependent = true;
  for (int i = 0; i < 2; ++i) {
    program::run(SPARK_LAUNCH(then_adds_in_place, config, in.data(), sums.data(), marks.data()));
  }
  expect_values(sums, [](int i) { return 1 + 3 * i; });
  expect_values(marks, [](int i) { return i < 3 ? 3 : -1; });
}
LEGAL(reads_before_dependence_wait) {
  const program::Buffer<int> in("in", count_up(32));
  const program::Buffer<int> scale("scale", std::vector<int>(32, 3));
  const Workspace<int> more("more", 32);
  const program::Buffer<int> out("out", 32);
  program::run(SPARK_LAUNCH(first_adds_one, LaunchConfig{1, 32}, in.data(), more.data()));
  LaunchConfig config{1, 32};
  config.dependent = true;
  program::run(SPARK_LAUNCH(then_scales, config, more.data(), scale.data(), out.data()));
  expect_values(out, [](int i) { return 3 * (i + 1); });
}

}  // namespace
