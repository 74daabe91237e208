// Many blocks over several workers: indices, shared memory's first content, atomics, schedules, launches.
#include <thread>

#include "harness.h"

using namespace spark;
using namespace spark::test;

namespace {

struct Indices {
  uint32_t* out;  // [blocks, threads]
};

__global__ void index_kernel(const __grid_constant__ Indices p) {
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  p.out[block * threads + thread] = block << 16 | thread;
}

struct Fill {
  float* out;  // [blocks, 3]
};

__global__ void fill_kernel(const __grid_constant__ Fill p) {
  SHARED_ARRAY(bf16, small_smem, 40);
  DYNAMIC_SHARED(float, big_smem);
  if (threadIdx.x == 0) {
    float* out = p.out + blockIdx.x * 3;
    out[0] = to_float(small_smem[39]);
    out[1] = big_smem[0];
    out[2] = big_smem[255];
  }
  __syncthreads();
  small_smem[threadIdx.x] = from_float<bf16>(1.0f);
  for (int i = threadIdx.x; i < 256; i += blockDim.x) big_smem[i] = 2.0f;
}

struct Atomics {
  int* ints;        // [8]
  unsigned* words;  // [4]
  unsigned long long* wide;
  float* sum;
  double* wide_sum;
};

__global__ void atomic_kernel(const __grid_constant__ Atomics p) {
  SHARED_ARRAY(int, count_smem, 1);
  if (threadIdx.x == 0) count_smem[0] = 0;
  __syncthreads();
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  atomicAdd(count_smem, 1);
  atomicAdd(p.ints + 0, i);
  atomicSub(p.ints + 1, 1);
  atomicMin(p.ints + 2, -i);
  atomicMax(p.ints + 3, i);
  atomicOr(p.words + 0, 1u << (i % 32));
  atomicAnd(p.words + 1, ~(1u << (i % 16)));
  atomicXor(p.words + 2, static_cast<unsigned>(i));
  atomicInc(p.words + 3, 6u);
  for (int step = 0; step < 100; ++step) atomicAdd(p.ints + 7, 1);
  atomicAdd(p.wide, 1ull << 33);
  atomicAdd(p.sum, 1.0f);
  atomicAdd(p.wide_sum, 0.5);
  while (atomicCAS(p.ints + 4, 0, 1) != 0) {
  }
  p.ints[5] += 1;  // under the lock
  __threadfence();
  atomicExch(p.ints + 4, 0);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(p.ints + 6, count_smem[0]);
}

// A reduction whose order is fixed by barriers: every schedule must give the same bits.
struct Reduce {
  const float* in;  // [blocks, 96]
  float* out;       // [blocks]
};

__global__ void reduce_kernel(const __grid_constant__ Reduce p) {
  SHARED_ARRAY(float, part_smem, 3);
  const float sum = warp_sum(p.in[blockIdx.x * blockDim.x + threadIdx.x]);
  if (lane_id() == 0) part_smem[warp_id()] = sum;
  __syncthreads();
  if (threadIdx.x == 0) p.out[blockIdx.x] = part_smem[0] + part_smem[1] * part_smem[2];
}

// The order in which threads and blocks pass: what a schedule is free to choose.
struct Order {
  unsigned* next;
  unsigned* thread_at;  // [threads of all blocks]
};

__global__ void order_kernel(const __grid_constant__ Order p) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  p.thread_at[atomicAdd(p.next, 1u)] = i;
}

// Lanes race for a slot that no barrier guards.
__global__ void race_kernel(const __grid_constant__ Order p) {
  SHARED_ARRAY(unsigned, slot_smem, 1);
  slot_smem[0] = threadIdx.x;
  __syncthreads();
  p.thread_at[threadIdx.x] = slot_smem[0];
}

// Blocks 37, 38, 39 … fail; with two workers or more 37 and 38 run side by side, and the slow one fails after the
// other.
__global__ void failing_blocks_kernel(const __grid_constant__ Indices p, unsigned slow_block) {
  int steps = blockIdx.x < 37 ? 300 : blockIdx.x == 37 ? 2000 : 1;
  if (blockIdx.x == slow_block) steps = 20000;
  for (int i = 0; i < steps; ++i) __syncwarp();
  if (blockIdx.x >= 37) __trap();
  p.out[blockIdx.x] = 1;
}

Status run_reduce(uint32_t blocks, float* in, float* out) {
  return SPARK_LAUNCH(reduce_kernel, LaunchConfig{dim3(blocks), dim3(96)}, Reduce{in, out});
}

}  // namespace

CASE(indices) {
  uint32_t* out = make_buffer<uint32_t>(24 * 30);
  const Status status = SPARK_LAUNCH(index_kernel, LaunchConfig{dim3(2, 3, 4), dim3(5, 3, 2)}, Indices{out});
  const Status end = finished(status);
  show("out", out, 24 * 30);
  return end;
}

CASE(fill) {
  float* out = make_buffer<float>(20 * 3);
  const Status status = finished(SPARK_LAUNCH(fill_kernel, LaunchConfig{dim3(20), dim3(32), 1024}, Fill{out}));
  show("out", out, 20 * 3);
  return status;
}

CASE(atomics) {
  Atomics p{make_buffer<int>(8), make_buffer<unsigned>(4), make_buffer<unsigned long long>(1), make_buffer<float>(1),
            make_buffer<double>(1)};
  p.words[1] = ~0u;
  const Status status = finished(SPARK_LAUNCH(atomic_kernel, LaunchConfig{dim3(40), dim3(64)}, p));
  show("ints", p.ints, 8);
  show("words", p.words, 4);
  show("wide", *p.wide);
  show("sum", *p.sum);
  show("wide_sum", *p.wide_sum);
  return status;
}

CASE(reduce) {
  Numbers numbers;
  float* in = make_buffer<float>(200 * 96);
  float* out = make_buffer<float>(200);
  for (int i = 0; i < 200 * 96; ++i) in[i] = numbers.between(-1.0f, 1.0f);
  const Status status = finished(run_reduce(200, in, out));
  show("out", out, 200);
  return status;
}

CASE(order) {
  Order p{make_buffer<unsigned>(1), make_buffer<unsigned>(10 * 64)};
  const Status status = finished(SPARK_LAUNCH(order_kernel, LaunchConfig{dim3(10), dim3(64)}, p));
  show("order", p.thread_at, 10 * 64);
  return status;
}

CASE(race) {
  Order p{make_buffer<unsigned>(1), make_buffer<unsigned>(64)};
  const Status status = finished(SPARK_LAUNCH(race_kernel, LaunchConfig{dim3(1), dim3(64)}, p));
  show("out", p.thread_at, 64);
  return status;
}

static Status run_failing_blocks(unsigned slow_block) {
  const Indices p{make_buffer<uint32_t>(400)};
  return SPARK_LAUNCH(failing_blocks_kernel, LaunchConfig{dim3(400), dim3(32)}, p, slow_block);
}

CASE(failing_blocks) {
  return run_failing_blocks(400);
}
CASE(failing_blocks_first_slow) {
  return run_failing_blocks(37);
}
CASE(failing_blocks_second_slow) {
  return run_failing_blocks(38);
}

// Launches from several host threads at once.
CASE(concurrent_launches) {
  float* in = make_buffer<float>(50 * 96);
  float* out = make_buffer<float>(4 * 50);
  for (int i = 0; i < 50 * 96; ++i) in[i] = static_cast<float>(i % 7);
  std::vector<std::thread> threads;
  std::vector<Status> results(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 20 && results[i].code == 0; ++round) results[i] = run_reduce(50, in, out + i * 50);
    });
  }
  for (std::thread& thread : threads) thread.join();
  show("out", out, 4 * 50);
  for (const Status& result : results) {
    if (result.code != 0) return result;
  }
  return finished(ok());
}

CASE(most_threads) {
  uint32_t* out = make_buffer<uint32_t>(3 * 1024);
  const Status status = SPARK_LAUNCH(index_kernel, LaunchConfig{dim3(3), dim3(1024)}, Indices{out});
  const Status end = finished(status);
  show("out", out, 3 * 1024);
  return end;
}

#if defined(SPARK_EMULATOR)
CASE(configured_in_code) {
  spark_emulator_configure(SPARK_EMULATOR_DESCENDING, SPARK_EMULATOR_EARLY, 5, 1);
  Order p{make_buffer<unsigned>(1), make_buffer<unsigned>(10 * 64)};
  const Status status = SPARK_LAUNCH(order_kernel, LaunchConfig{dim3(10), dim3(64)}, p);
  show("order", p.thread_at, 10 * 64);
  return status;
}

CASE(smaller_shared_limit) {
  spark_emulator_set_shared_limits(99 * 1024, 0);  // sm_86, sm_89, sm_120
  float* out = make_buffer<float>(3);
  return SPARK_LAUNCH(fill_kernel, LaunchConfig{dim3(1), dim3(32), 100 * 1024}, Fill{out});
}
#endif
