// Thread block clusters (sm_90 and up): which block of its cluster this is, barrier.cluster, and mapa, which shows the
// shared memory of another block of the cluster. A launch without a cluster has one of one block.
// A block that uses another's shared memory passes a barrier before, so that the other has started, and one after, so
// that the other has not exited.
#pragma once

#include "common/platform.h"

namespace spark::ptx {

// %cluster_ctarank: 0 to cluster_nctarank() - 1, x first.
SPARK_DEVICE unsigned cluster_ctarank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

SPARK_DEVICE unsigned cluster_nctarank() {
  unsigned count;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(count));
  return count;
}

// %cluster_ctaid: the block's position in its cluster.
SPARK_DEVICE uint3 cluster_ctaid() {
  uint3 at;
  asm volatile("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(at.x));
  asm volatile("mov.u32 %0, %%cluster_ctaid.y;" : "=r"(at.y));
  asm volatile("mov.u32 %0, %%cluster_ctaid.z;" : "=r"(at.z));
  return at;
}

// %cluster_nctaid: the cluster's shape.
SPARK_DEVICE uint3 cluster_nctaid() {
  uint3 shape;
  asm volatile("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(shape.x));
  asm volatile("mov.u32 %0, %%cluster_nctaid.y;" : "=r"(shape.y));
  asm volatile("mov.u32 %0, %%cluster_nctaid.z;" : "=r"(shape.z));
  return shape;
}

// barrier.cluster.arrive.release: counts this thread in; what it did so far is seen by those that wait.
SPARK_DEVICE void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
}

// Counts this thread in and shows nothing of what it did.
SPARK_DEVICE void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}

// barrier.cluster.wait.acquire: until all threads of the cluster that have not exited have arrived.
SPARK_DEVICE void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

SPARK_DEVICE void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}

// mapa: where `smem`, a variable in shared memory, is in the block of this rank. The pointer is a generic one, for
// loads, stores and atomics; cp.async and ldmatrix do not take it.
template <typename T>
SPARK_DEVICE T* map_shared(T* smem, unsigned rank) {
  T* there;
  asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(smem), "r"(rank));
  return there;
}

}  // namespace spark::ptx
