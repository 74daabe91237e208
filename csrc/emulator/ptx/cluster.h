// Thread block clusters on the emulator; csrc/ptx/cluster.h says what these do.
#pragma once

#include "common/platform.h"

namespace spark::ptx {

inline unsigned cluster_ctarank() {
  return emulator::cluster_rank();
}

inline unsigned cluster_nctarank() {
  const dim3 shape = emulator::cluster_shape();
  return shape.x * shape.y * shape.z;
}

inline uint3 cluster_ctaid() {
  return emulator::cluster_position();
}

inline uint3 cluster_nctaid() {
  const dim3 shape = emulator::cluster_shape();
  return {shape.x, shape.y, shape.z};
}

inline void cluster_arrive(emulator::Site at = emulator::Site::here()) {
  emulator::cluster_arrive(true, at);
}

inline void cluster_arrive_relaxed(emulator::Site at = emulator::Site::here()) {
  emulator::cluster_arrive(false, at);
}

inline void cluster_wait(emulator::Site at = emulator::Site::here()) {
  emulator::cluster_wait(at);
}

inline void cluster_sync(emulator::Site at = emulator::Site::here()) {
  emulator::cluster_arrive(true, at);
  emulator::cluster_wait(at);
}

template <typename T>
inline T* map_shared(T* smem, unsigned rank, emulator::Site at = emulator::Site::here()) {
  return static_cast<T*>(emulator::map_shared(smem, rank, at));
}

}  // namespace spark::ptx
