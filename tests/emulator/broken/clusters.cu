// Faults between the blocks of a cluster, and what looks like one and is none. `here: TAG` marks a line that the report
// names.
#include "cases.h"
#include "ptx/cluster.h"

using namespace spark;
using namespace spark::broken;

namespace {

// A peer's memory is read before the peer has written it.
template <bool BROKEN>
__global__ void peer_read_without_barrier(const int* in, int* out) {
  SHARED_ARRAY(int, part_smem, 32);
  const int t = threadIdx.x, i = blockIdx.x * 32 + t;
  ptx::cluster_sync();
  part_smem[t] = in[i];  // here: peer_read_without_barrier write
  if constexpr (BROKEN) {
    __syncthreads();
  } else {
    ptx::cluster_sync();
  }
  out[i] = ptx::map_shared(part_smem, ptx::cluster_ctarank() ^ 1)[31 - t];  // here: peer_read_without_barrier read
  ptx::cluster_sync();
}

// The barrier is there, but shows nothing of what was written.
template <bool BROKEN>
__global__ void peer_read_after_relaxed_arrive(const int* in, int* out) {
  SHARED_ARRAY(int, part_smem, 32);
  const int t = threadIdx.x, i = blockIdx.x * 32 + t;
  part_smem[t] = in[i];  // here: peer_read_after_relaxed_arrive write
  if constexpr (BROKEN) {
    ptx::cluster_arrive_relaxed();
  } else {
    ptx::cluster_arrive();
  }
  ptx::cluster_wait();
  out[i] = ptx::map_shared(part_smem, ptx::cluster_ctarank() ^ 1)[t] / 2;  // here: peer_read_after_relaxed_arrive read
  ptx::cluster_sync();
}

// A block whose memory is still read goes away.
template <bool BROKEN>
__global__ void exit_before_peer_reads(const int* in, int* out) {
  SHARED_ARRAY(int, part_smem, 32);
  const int t = threadIdx.x, i = blockIdx.x * 32 + t;
  part_smem[t] = in[i];
  ptx::cluster_sync();
  if (ptx::cluster_ctarank() == 0) out[t] = part_smem[t] + ptx::map_shared(part_smem, 1)[t];  // here: exit peer reads
  if constexpr (!BROKEN) ptx::cluster_sync();
}

// Mail is left in the memory of a block that may not run yet.
template <bool BROKEN>
__global__ void peer_written_before_it_starts(const int* in, int* out) {
  SHARED_ARRAY(int, mail_smem, 32);
  const int t = threadIdx.x, i = blockIdx.x * 32 + t;
  if constexpr (!BROKEN) ptx::cluster_sync();
  ptx::map_shared(mail_smem, ptx::cluster_ctarank() ^ 1)[31 - t] = in[i];  // here: peer_written_before_it_starts
  ptx::cluster_sync();
  out[i] = mail_smem[t];
}

// One block leaves out the first barrier: the others' first meets its second.
template <bool BROKEN>
__global__ void cluster_barrier_missed_by_a_block(const int* in, int* out) {
  SHARED_ARRAY(int, part_smem, 32);
  const int t = threadIdx.x, i = blockIdx.x * 32 + t;
  ptx::cluster_sync();
  part_smem[t] = in[i];  // here: missed_by_a_block write
  if (!BROKEN || ptx::cluster_ctarank() == 0) ptx::cluster_sync();
  out[i] = ptx::map_shared(part_smem, ptx::cluster_ctarank() ^ 1)[31 - t];  // here: missed_by_a_block read
  ptx::cluster_sync();
}

// Only the first warp of a block comes to the cluster's barrier, while the second waits for it.
template <bool BROKEN>
__global__ void cluster_barrier_missed_by_a_warp(const int* in, int* out) {
  SHARED_ARRAY(int, part_smem, 64);
  const int t = threadIdx.x, i = blockIdx.x * 64 + t;
  part_smem[t] = in[i];
  if (!BROKEN || t < 32 || ptx::cluster_ctarank() == 0) ptx::cluster_sync();  // here: missed_by_a_warp cluster
  __syncthreads();                                                            // here: missed_by_a_warp block
  out[i] = ptx::map_shared(part_smem, ptx::cluster_ctarank() ^ 1)[63 - t];
  ptx::cluster_sync();
}

// Past the end of an array in a peer's memory.
template <bool BROKEN>
__global__ void read_past_a_peers_array(const int* in, int* out) {
  SHARED_ARRAY(int, part_smem, 32);
  const int t = threadIdx.x, i = blockIdx.x * 32 + t;
  part_smem[t] = in[i];
  ptx::cluster_sync();
  const int* peer = ptx::map_shared(part_smem, ptx::cluster_ctarank() ^ 1);
  out[i] = peer[BROKEN ? t + 1 : t] + 1;  // here: read_past_a_peers_array
  ptx::cluster_sync();
}

// A word of a peer's memory that nobody has written.
template <bool BROKEN>
__global__ void unwritten_shared_of_a_peer(const int* in, int* out) {
  SHARED_ARRAY(int, part_smem, 32);
  const int t = threadIdx.x, i = blockIdx.x * 32 + t;
  if (!BROKEN || t != 31) part_smem[t] = in[i];
  ptx::cluster_sync();
  const int* peer = ptx::map_shared(part_smem, ptx::cluster_ctarank() ^ 1);
  out[i] = peer[t] * 2;  // here: unwritten_shared_of_a_peer
  ptx::cluster_sync();
}

// Global memory, too, is ordered between the blocks of a cluster by its barrier.
__global__ void global_memory_within_a_cluster(const int* in, int* out, int* between) {
  const int t = threadIdx.x, i = blockIdx.x * 32 + t;
  between[i] = in[i] + 1;
  ptx::cluster_sync();
  out[i] = between[i ^ 32];
}

// Each adds to the next one's sum by atomics, which no barrier needs to order among themselves.
__global__ void sums_by_remote_atomics(const int* in, int* out) {
  SHARED_ARRAY(int, sum_smem, 1);
  const int t = threadIdx.x, i = blockIdx.x * 32 + t;
  if (t == 0) sum_smem[0] = 0;
  ptx::cluster_sync();
  for (unsigned rank = 0; rank < ptx::cluster_nctarank(); ++rank) atomicAdd(ptx::map_shared(sum_smem, rank), in[i]);
  ptx::cluster_sync();
  out[i] = sum_smem[0];
}

// What one warp knows by the cluster's barrier reaches the others by the block's; a relaxed arrival tells that a block
// has started.
__global__ void cluster_barrier_by_way_of_others(const int* in, int* out) {
  SHARED_ARRAY(int, part_smem, 64);
  const int t = threadIdx.x, i = blockIdx.x * 64 + t;
  ptx::cluster_arrive_relaxed();
  ptx::cluster_wait();
  ptx::map_shared(part_smem, ptx::cluster_ctarank() ^ 1)[t] = in[i];
  __syncthreads();
  ptx::cluster_arrive();
  const int own = in[i];
  ptx::cluster_wait();
  __syncthreads();
  out[i] = part_smem[63 - t] + own;
}

template <typename Expected>
void run_pair(const char* name, void (*kernel)(const int*, int*), unsigned threads, Expected expected) {
  LaunchConfig config{2, threads};
  config.cluster = 2;
  run_ints(name, kernel, config, 2 * threads, 2 * threads, expected);
}

FAULT(peer_read_without_barrier) {
  run_pair("peer_read_without_barrier", peer_read_without_barrier<BROKEN>, 32, [](int i) { return 63 - i; });
}
FAULT(peer_read_after_relaxed_arrive) {
  run_pair("peer_read_after_relaxed_arrive", peer_read_after_relaxed_arrive<BROKEN>, 32,
           [](int i) { return (i ^ 32) / 2; });
}
FAULT(exit_before_peer_reads) {
  LaunchConfig config{2, 32};
  config.cluster = 2;
  run_ints("exit_before_peer_reads", exit_before_peer_reads<BROKEN>, config, 64, 32, [](int i) { return 2 * i + 32; });
}
FAULT(peer_written_before_it_starts) {
  run_pair("peer_written_before_it_starts", peer_written_before_it_starts<BROKEN>, 32, [](int i) { return 63 - i; });
}
FAULT(cluster_barrier_missed_by_a_block) {
  run_pair("cluster_barrier_missed_by_a_block", cluster_barrier_missed_by_a_block<BROKEN>, 32,
           [](int i) { return 63 - i; });
}
FAULT(cluster_barrier_missed_by_a_warp) {
  run_pair("cluster_barrier_missed_by_a_warp", cluster_barrier_missed_by_a_warp<BROKEN>, 64,
           [](int i) { return 127 - i; });
}
FAULT(read_past_a_peers_array) {
  run_pair("read_past_a_peers_array", read_past_a_peers_array<BROKEN>, 32, [](int i) { return (i ^ 32) + 1; });
}
FAULT(unwritten_shared_of_a_peer) {
  run_pair("unwritten_shared_of_a_peer", unwritten_shared_of_a_peer<BROKEN>, 32, [](int i) { return (i ^ 32) * 2; });
}
LEGAL(global_memory_within_a_cluster) {
  const program::Buffer<int> in("in", count_up(64));
  const Workspace<int> between("between", 64);
  const program::Buffer<int> out("out", 64);
  LaunchConfig config{2, 32};
  config.cluster = 2;
  program::run(SPARK_LAUNCH(global_memory_within_a_cluster, config, in.data(), out.data(), between.data()));
  expect_values(out, [](int i) { return (i ^ 32) + 1; });
}
LEGAL(sums_by_remote_atomics) {
  run_pair("sums_by_remote_atomics", sums_by_remote_atomics, 32, [](int) { return 63 * 64 / 2; });
}
LEGAL(cluster_barrier_by_way_of_others) {
  run_pair("cluster_barrier_by_way_of_others", cluster_barrier_by_way_of_others, 64,
           [](int i) { return (127 - i) + i; });
}

}  // namespace
