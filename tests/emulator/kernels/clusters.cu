// Thread block clusters: who is who, the cluster's barrier, and the other blocks' shared memory.
#include "harness.h"
#include "ptx/cluster.h"

using namespace spark;
using namespace spark::test;

namespace {

LaunchConfig in_clusters(dim3 grid, unsigned threads, dim3 cluster) {
  LaunchConfig config{grid, threads};
  config.cluster = cluster;
  return config;
}

struct Out {
  uint32_t* out;
};

__device__ unsigned block_number() {
  return (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
}

__global__ void index_kernel(const __grid_constant__ Out p) {
  if (threadIdx.x != 0) return;
  const uint3 at = ptx::cluster_ctaid(), shape = ptx::cluster_nctaid();
  const uint32_t values[8] = {
      ptx::cluster_ctarank(), ptx::cluster_nctarank(), at.x, at.y, at.z, shape.x, shape.y, shape.z};
  for (int i = 0; i < 8; ++i) p.out[block_number() * 8 + i] = values[i];
}

// Each block sums its own part, and block 0 of each cluster the parts of all, in the order of their ranks.
struct Reduce {
  const float* in;  // [blocks, 64]
  float* out;       // [clusters]
};

__global__ void reduce_kernel(const __grid_constant__ Reduce p) {
  SHARED_ARRAY(float, part_smem, 2);
  const float sum = warp_sum(p.in[blockIdx.x * blockDim.x + threadIdx.x]);
  if (lane_id() == 0) part_smem[warp_id()] = sum;
  ptx::cluster_sync();
  if (ptx::cluster_ctarank() == 0 && threadIdx.x == 0) {
    float all = 0.0f;
    for (unsigned rank = 0; rank < ptx::cluster_nctarank(); ++rank) {
      const float* part = ptx::map_shared(part_smem, rank);
      all = all * 0.5f + part[0] + part[1];
    }
    p.out[blockIdx.x / ptx::cluster_nctarank()] = all;
  }
  ptx::cluster_sync();
}

// Stores into the next block's dynamic shared memory and atomics on the first block's count. Only odd ranks declare
// other_smem ahead of count_smem, so that the same variable lies elsewhere in each.
__device__ unsigned* declare_other() {
  SHARED_ARRAY(unsigned, other_smem, 100);
  return other_smem;
}

__global__ void ring_kernel(const __grid_constant__ Out p) {
  DYNAMIC_SHARED(unsigned, mail_smem);
  const unsigned rank = ptx::cluster_ctarank(), count = ptx::cluster_nctarank(), t = threadIdx.x;
  if (rank % 2 == 1) declare_other()[t] = 7;
  SHARED_ARRAY(unsigned, count_smem, 1);
  if (t == 0) count_smem[0] = 0;
  ptx::cluster_sync();
  ptx::map_shared(mail_smem, (rank + 1) % count)[t] = blockIdx.x << 16 | t;
  atomicAdd(ptx::map_shared(count_smem, 0), t + 1);
  ptx::cluster_arrive();
  const unsigned private_work = t * t;
  ptx::cluster_wait();
  p.out[blockIdx.x * blockDim.x + t] = mail_smem[t] + private_work;
  if (rank == 0 && t == 0) p.out[gridDim.x * blockDim.x + blockIdx.x / count] = count_smem[0];
}

// Parts go round twice through buffers by turns, with arrive and wait apart.
__global__ void rounds_kernel(const __grid_constant__ Out p) {
  SHARED_ARRAY(unsigned, turn_smem, 2 * 32);
  const unsigned rank = ptx::cluster_ctarank(), count = ptx::cluster_nctarank(), t = threadIdx.x;
  unsigned value = blockIdx.x * 100 + t;
  for (unsigned step = 0; step < 2 * count; ++step) {
    unsigned* turn = turn_smem + step % 2 * 32;
    turn[t] = value;
    ptx::cluster_arrive();
    ptx::cluster_wait();
    value = ptx::map_shared(turn, (rank + 1) % count)[31 - t] + 1;
  }
  ptx::cluster_arrive_relaxed();
  p.out[blockIdx.x * 32 + t] = value;
  ptx::cluster_wait();
}

// Most threads leave early: the barrier waits for those that are left.
__global__ void early_exit_kernel(const __grid_constant__ Out p) {
  SHARED_ARRAY(unsigned, value_smem, 1);
  if (threadIdx.x >= 32) return;
  if (threadIdx.x == 0) value_smem[0] = blockIdx.x + 1;
  ptx::cluster_sync();
  const unsigned other = ptx::map_shared(value_smem, ptx::cluster_ctarank() ^ 1)[0];
  ptx::cluster_sync();
  p.out[blockIdx.x * 32 + threadIdx.x] = other;
}

// A block that waits by atomics for another of its cluster.
__global__ void spin_kernel(const __grid_constant__ Out p) {
  SHARED_ARRAY(unsigned, flag_smem, 1);
  const unsigned rank = ptx::cluster_ctarank();
  if (threadIdx.x == 0) flag_smem[0] = 0;
  ptx::cluster_sync();
  if (threadIdx.x == 0) {
    if (rank + 1 < ptx::cluster_nctarank()) {
      while (atomicAdd(flag_smem, 0u) == 0) {
      }
    }
    if (rank > 0) atomicExch(ptx::map_shared(flag_smem, rank - 1), rank + 10);
  }
  ptx::cluster_sync();
  if (threadIdx.x == 0) p.out[blockIdx.x] = flag_smem[0];
}

Status run_indices(dim3 grid, dim3 cluster) {
  const size_t count = 8ull * grid.x * grid.y * grid.z;
  const Out p{make_buffer<uint32_t>(count)};
  const Status status = finished(SPARK_LAUNCH(index_kernel, in_clusters(grid, 32, cluster), p));
  show("out", p.out, count);
  return status;
}

template <typename Kernel>
Status run_out(Kernel kernel, const LaunchConfig& config, size_t count) {
  const Out p{make_buffer<uint32_t>(count)};
  const Status status = finished(launch(kernel, config, p));
  show("out", p.out, count);
  return status;
}

}  // namespace

CASE(indices) {
  return run_indices({4, 6, 2}, {2, 2, 2});
}
CASE(indices_of_a_row) {
  return run_indices({6, 2, 1}, {3, 1, 1});
}
CASE(indices_without_a_cluster) {
  return run_indices({3, 1, 1}, {1, 1, 1});
}

CASE(reduce) {
  Numbers numbers;
  const Reduce p{make_buffer<float>(24 * 64), make_buffer<float>(6)};
  for (int i = 0; i < 24 * 64; ++i) const_cast<float*>(p.in)[i] = numbers.between(-1.0f, 1.0f);
  const Status status = finished(SPARK_LAUNCH(reduce_kernel, in_clusters(24, 64, 4), p));
  show("out", p.out, 6);
  return status;
}

CASE(ring) {
  LaunchConfig config = in_clusters(6, 64, 3);
  config.dynamic_smem = 64 * sizeof(unsigned);
  return run_out(ring_kernel, config, 6 * 64 + 2);
}
CASE(rounds) {
  return run_out(rounds_kernel, in_clusters(16, 32, 8), 16 * 32);
}
CASE(early_exit) {
  return run_out(early_exit_kernel, in_clusters(4, 96, 2), 4 * 32);
}
CASE(spin) {
  return run_out(spin_kernel, in_clusters(8, 32, 4), 8);
}
CASE(barrier_without_a_cluster) {
  return run_out(rounds_kernel, in_clusters(2, 32, 1), 2 * 32);
}

// Faults.

namespace {

__global__ void rank_out_of_range_kernel(const __grid_constant__ Out p) {
  SHARED_ARRAY(unsigned, value_smem, 4);
  p.out[threadIdx.x] = ptx::map_shared(value_smem, 2)[0];  // here: rank
}

__global__ void not_shared_kernel(const __grid_constant__ Out p) {
  p.out[threadIdx.x] = ptx::map_shared(p.out, 1)[0];  // here: not shared
}

__global__ void arrives_twice_kernel(const __grid_constant__ Out) {
  ptx::cluster_arrive();
  ptx::cluster_arrive();  // here: twice
}

__global__ void waits_without_arriving_kernel(const __grid_constant__ Out) {
  ptx::cluster_wait();  // here: wait
}

__global__ void past_shared_of_a_peer_kernel(const __grid_constant__ Out) {
  SHARED_ARRAY(unsigned, value_smem, 4);
  value_smem[threadIdx.x % 4] = 1;
  ptx::cluster_sync();
  if (ptx::cluster_ctarank() == 0) ptx::map_shared(value_smem, 1)[4] = 5;
  ptx::cluster_sync();
}

// Block 0 goes on alone when block 1 has exited.
__global__ void write_after_exit_kernel(const __grid_constant__ Out) {
  SHARED_ARRAY(unsigned, value_smem, 4);
  value_smem[threadIdx.x % 4] = 1;
  ptx::cluster_sync();
  if (ptx::cluster_ctarank() == 1) return;
  ptx::cluster_sync();  // does not wait for those that have exited
  ptx::map_shared(value_smem, 1)[2] = 5;
}

__global__ void any_kernel(const __grid_constant__ Out) {}

}  // namespace

CASE(rank_out_of_range) {
  return run_out(rank_out_of_range_kernel, in_clusters(2, 32, 2), 32);
}
CASE(not_shared) {
  return run_out(not_shared_kernel, in_clusters(2, 32, 2), 32);
}
CASE(arrives_twice) {
  return run_out(arrives_twice_kernel, in_clusters(2, 32, 2), 1);
}
CASE(waits_without_arriving) {
  return run_out(waits_without_arriving_kernel, in_clusters(2, 32, 2), 1);
}
CASE(past_shared_of_a_peer) {
  return run_out(past_shared_of_a_peer_kernel, in_clusters(2, 32, 2), 1);
}
CASE(write_after_exit) {
  return run_out(write_after_exit_kernel, in_clusters(2, 32, 2), 1);
}
CASE(too_many_blocks) {
  return run_out(any_kernel, in_clusters(16, 32, 16), 1);
}
CASE(no_blocks) {
  return run_out(any_kernel, in_clusters(16, 32, {2, 0, 1}), 1);
}
CASE(no_multiple) {
  return run_out(any_kernel, in_clusters({4, 3, 1}, 32, {2, 2, 1}), 1);
}
