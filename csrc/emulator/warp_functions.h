// Warp-wide functions by mask. Each is a Collective: lanes hand in their slots, the last one to arrive does the work.
#pragma once

#include <cstdint>
#include <cstring>

#include "emulator/runtime.h"

namespace spark::emulator {

struct ShuffleSlot {
  uint64_t value;
  int source;  // lane
  uint64_t result;
};

struct VoteSlot {
  uint64_t value;
  uint64_t result;
};

extern const Collective kShuffle, kShuffleUp, kShuffleDown, kShuffleXor;
extern const Collective kSyncWarp, kBallot, kAll, kAny, kMatchAny;
extern const Collective kReduceAdd, kReduceMin, kReduceMax, kReduceMinSigned, kReduceMaxSigned;
extern const Collective kReduceAnd, kReduceOr, kReduceXor;
extern const Collective kWarpMax, kWarpSum, kQuadMax, kQuadSum;

template <typename T>
inline T shuffle(const Collective& collective, unsigned mask, T value, int source, Site at) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles take 4 or 8 bytes");
  ShuffleSlot slot{0, source, 0};
  std::memcpy(&slot.value, &value, sizeof value);
  run_collective(collective, mask, &slot, at);
  std::memcpy(&value, &slot.result, sizeof value);
  return value;
}

inline uint64_t vote(const Collective& collective, unsigned mask, uint64_t value, Site at) {
  VoteSlot slot{value, 0};
  run_collective(collective, mask, &slot, at);
  return slot.result;
}

inline void check_width(int width, Site at) {
  if (width < 1 || width > 32 || (width & (width - 1)) != 0) fail(at, "width %d is not 1, 2, 4, 8, 16 or 32", width);
}

// In common/warp.h the same as butterfly shuffles: one collective instead of five, and the caller's line in errors.
float reduce_lanes(const Collective& collective, float value, Site at);

unsigned live_lanes();

}  // namespace spark::emulator

template <typename T>
inline T __shfl_sync(unsigned mask, T value, int source, int width = 32,
                     spark::emulator::Site at = spark::emulator::Site::here()) {
  spark::emulator::check_width(width, at);
  const int lane = spark::emulator::this_thread()->lane;
  return spark::emulator::shuffle(spark::emulator::kShuffle, mask, value,
                                  (lane & ~(width - 1)) | (source & (width - 1)), at);
}

template <typename T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                        spark::emulator::Site at = spark::emulator::Site::here()) {
  spark::emulator::check_width(width, at);
  const int lane = spark::emulator::this_thread()->lane;
  const int source = lane - static_cast<int>(delta);
  return spark::emulator::shuffle(spark::emulator::kShuffleUp, mask, value,
                                  source < (lane & ~(width - 1)) ? lane : source, at);
}

template <typename T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                          spark::emulator::Site at = spark::emulator::Site::here()) {
  spark::emulator::check_width(width, at);
  const int lane = spark::emulator::this_thread()->lane;
  const int source = lane + static_cast<int>(delta);
  return spark::emulator::shuffle(spark::emulator::kShuffleDown, mask, value,
                                  source > (lane | (width - 1)) ? lane : source, at);
}

// A source in a later segment gives the lane its own value; one in an earlier segment is read.
template <typename T>
inline T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                         spark::emulator::Site at = spark::emulator::Site::here()) {
  spark::emulator::check_width(width, at);
  const int lane = spark::emulator::this_thread()->lane;
  const int source = lane ^ lane_mask;
  return spark::emulator::shuffle(spark::emulator::kShuffleXor, mask, value,
                                  source > (lane | (width - 1)) ? lane : source, at);
}

inline void __syncwarp(unsigned mask = 0xffffffffu, spark::emulator::Site at = spark::emulator::Site::here()) {
  spark::emulator::vote(spark::emulator::kSyncWarp, mask, 0, at);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, spark::emulator::Site at = spark::emulator::Site::here()) {
  return static_cast<unsigned>(spark::emulator::vote(spark::emulator::kBallot, mask, predicate != 0, at));
}

inline int __all_sync(unsigned mask, int predicate, spark::emulator::Site at = spark::emulator::Site::here()) {
  return static_cast<int>(spark::emulator::vote(spark::emulator::kAll, mask, predicate != 0, at));
}

inline int __any_sync(unsigned mask, int predicate, spark::emulator::Site at = spark::emulator::Site::here()) {
  return static_cast<int>(spark::emulator::vote(spark::emulator::kAny, mask, predicate != 0, at));
}

template <typename T>
inline unsigned __match_any_sync(unsigned mask, T value, spark::emulator::Site at = spark::emulator::Site::here()) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "match takes 4 or 8 bytes");
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return static_cast<unsigned>(spark::emulator::vote(spark::emulator::kMatchAny, mask, bits, at));
}

#define SPARK_REDUCE(name, T, collective)                                                                              \
  inline T name(unsigned mask, T value, spark::emulator::Site at = spark::emulator::Site::here()) {                    \
    return static_cast<T>(spark::emulator::vote(spark::emulator::collective, mask, static_cast<uint32_t>(value), at)); \
  }
SPARK_REDUCE(__reduce_add_sync, unsigned, kReduceAdd)
SPARK_REDUCE(__reduce_add_sync, int, kReduceAdd)
SPARK_REDUCE(__reduce_min_sync, unsigned, kReduceMin)
SPARK_REDUCE(__reduce_min_sync, int, kReduceMinSigned)
SPARK_REDUCE(__reduce_max_sync, unsigned, kReduceMax)
SPARK_REDUCE(__reduce_max_sync, int, kReduceMaxSigned)
SPARK_REDUCE(__reduce_and_sync, unsigned, kReduceAnd)
SPARK_REDUCE(__reduce_or_sync, unsigned, kReduceOr)
SPARK_REDUCE(__reduce_xor_sync, unsigned, kReduceXor)
#undef SPARK_REDUCE

// Every lane that has not exited: a GPU may also name fewer, so no kernel should build on it.
inline unsigned __activemask() {
  return spark::emulator::live_lanes();
}
