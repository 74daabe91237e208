// What the last lane to arrive does for its warp.
#include "emulator/warp_functions.h"

#include <algorithm>
#include <cmath>

#include "emulator/block.h"

namespace spark::emulator {
namespace {

template <typename Use>
void for_lanes(unsigned mask, Use use) {
  for (unsigned rest = mask; rest != 0; rest &= rest - 1) use(__builtin_ctz(rest));
}

void shuffle_lanes(void* const* slots, unsigned mask, Site at) {
  for_lanes(mask, [&](int lane) {
    auto& slot = *static_cast<ShuffleSlot*>(slots[lane]);
    if ((mask >> slot.source & 1u) == 0) {
      fail(at, "shuffle: lane %d reads lane %d, which mask 0x%08x does not name", lane, slot.source, mask);
    }
    slot.result = static_cast<const ShuffleSlot*>(slots[slot.source])->value;
  });
}

void give_all(void* const* slots, unsigned mask, uint64_t result) {
  for_lanes(mask, [&](int lane) { static_cast<VoteSlot*>(slots[lane])->result = result; });
}

uint64_t value_of(void* const* slots, int lane) {
  return static_cast<const VoteSlot*>(slots[lane])->value;
}

unsigned ballot_of(void* const* slots, unsigned mask) {
  unsigned ballot = 0;
  for_lanes(mask, [&](int lane) { ballot |= static_cast<unsigned>(value_of(slots, lane) != 0) << lane; });
  return ballot;
}

template <typename T, typename Combine>
void reduce(void* const* slots, unsigned mask, Combine combine) {
  T result = static_cast<T>(value_of(slots, __builtin_ctz(mask)));
  for_lanes(mask & (mask - 1), [&](int lane) { result = combine(result, static_cast<T>(value_of(slots, lane))); });
  give_all(slots, mask, static_cast<uint32_t>(result));
}

// The butterfly of common/warp.h: at each step lane i combines with lane i ^ step.
template <typename Combine>
void butterfly(void* const* slots, int first_step, int last_step, Combine combine) {
  float x[kLanes], y[kLanes];
  for (int i = 0; i < kLanes; ++i) x[i] = *static_cast<const float*>(slots[i]);
  const bool down = first_step > last_step;
  for (int step = first_step; down ? step >= last_step : step <= last_step; step = down ? step / 2 : step * 2) {
    for (int i = 0; i < kLanes; ++i) y[i] = combine(x[i], x[i ^ step]);
    std::copy(y, y + kLanes, x);
  }
  for (int i = 0; i < kLanes; ++i) *static_cast<float*>(slots[i]) = x[i];
}

float larger(float a, float b) {
  return fmaxf(a, b);
}
float sum(float a, float b) {
  return a + b;
}

void sync_lanes(void* const*, unsigned, Site) {}

}  // namespace

const Collective kShuffle{"__shfl_sync", false, shuffle_lanes};
const Collective kShuffleUp{"__shfl_up_sync", false, shuffle_lanes};
const Collective kShuffleDown{"__shfl_down_sync", false, shuffle_lanes};
const Collective kShuffleXor{"__shfl_xor_sync", false, shuffle_lanes};
const Collective kSyncWarp{"__syncwarp", false, sync_lanes};

const Collective kBallot{"__ballot_sync", false, [](void* const* slots, unsigned mask, Site) {
                           give_all(slots, mask, ballot_of(slots, mask));
                         }};
const Collective kAll{"__all_sync", false, [](void* const* slots, unsigned mask, Site) {
                        give_all(slots, mask, ballot_of(slots, mask) == mask);
                      }};
const Collective kAny{"__any_sync", false, [](void* const* slots, unsigned mask, Site) {
                        give_all(slots, mask, ballot_of(slots, mask) != 0);
                      }};
const Collective kMatchAny{
    "__match_any_sync", false, [](void* const* slots, unsigned mask, Site) {
      for_lanes(mask, [&](int lane) {
        uint64_t same = 0;
        for_lanes(mask, [&](int other) { same |= uint64_t{value_of(slots, other) == value_of(slots, lane)} << other; });
        static_cast<VoteSlot*>(slots[lane])->result = same;
      });
    }};

const Collective kReduceAdd{"__reduce_add_sync", false, [](void* const* slots, unsigned mask, Site) {
                              reduce<uint32_t>(slots, mask, [](uint32_t a, uint32_t b) { return a + b; });
                            }};
const Collective kReduceMin{"__reduce_min_sync", false, [](void* const* slots, unsigned mask, Site) {
                              reduce<uint32_t>(slots, mask, [](uint32_t a, uint32_t b) { return std::min(a, b); });
                            }};
const Collective kReduceMax{"__reduce_max_sync", false, [](void* const* slots, unsigned mask, Site) {
                              reduce<uint32_t>(slots, mask, [](uint32_t a, uint32_t b) { return std::max(a, b); });
                            }};
const Collective kReduceMinSigned{"__reduce_min_sync", false, [](void* const* slots, unsigned mask, Site) {
                                    reduce<int32_t>(slots, mask, [](int32_t a, int32_t b) { return std::min(a, b); });
                                  }};
const Collective kReduceMaxSigned{"__reduce_max_sync", false, [](void* const* slots, unsigned mask, Site) {
                                    reduce<int32_t>(slots, mask, [](int32_t a, int32_t b) { return std::max(a, b); });
                                  }};
const Collective kReduceAnd{"__reduce_and_sync", false, [](void* const* slots, unsigned mask, Site) {
                              reduce<uint32_t>(slots, mask, [](uint32_t a, uint32_t b) { return a & b; });
                            }};
const Collective kReduceOr{"__reduce_or_sync", false, [](void* const* slots, unsigned mask, Site) {
                             reduce<uint32_t>(slots, mask, [](uint32_t a, uint32_t b) { return a | b; });
                           }};
const Collective kReduceXor{"__reduce_xor_sync", false, [](void* const* slots, unsigned mask, Site) {
                              reduce<uint32_t>(slots, mask, [](uint32_t a, uint32_t b) { return a ^ b; });
                            }};

const Collective kWarpMax{"warp_max", false,
                          [](void* const* slots, unsigned, Site) { butterfly(slots, 16, 1, larger); }};
const Collective kWarpSum{"warp_sum", false, [](void* const* slots, unsigned, Site) { butterfly(slots, 16, 1, sum); }};
const Collective kQuadMax{"quad_max", false,
                          [](void* const* slots, unsigned, Site) { butterfly(slots, 1, 2, larger); }};
const Collective kQuadSum{"quad_sum", false, [](void* const* slots, unsigned, Site) { butterfly(slots, 1, 2, sum); }};

float reduce_lanes(const Collective& collective, float value, Site at) {
  run_collective(collective, ~0u, &value, at);
  return value;
}

unsigned live_lanes() {
  const Thread& self = running_thread();
  const Warp& warp = self.block->warps[self.warp()];
  return warp.existing & ~warp.exited;
}

}  // namespace spark::emulator
