// Split-KV decode on CUDA cores for groups of query heads, over contiguous or paged K and V.
//
// grid: [num_kv_heads * passes, num_splits, batch]; one CTA reduces the keys [begin, end) of its split for the packed
// query rows (the group's heads times qo_len) of one kv head, one warp a row, at most 8 warps; passes =
// ceil(group * qo_len / 8), and the rows are dealt evenly over the passes. A tile of TILE keys of K and V is staged
// once for all of the CTA's warps: with STAGES 1 by 16-byte loads between two barriers, with STAGES 2 by cp.async, one
// tile in flight while the one before it is reduced. Both reduce in the same order, so their partials have the same
// bits.
//
// A key's row is read by LANES lanes, one or more 16-byte chunks each, 32 / LANES keys at a time: for Q K^T and for P V
// a lane needs the same columns, so q and the accumulator stay in registers. The tiles need no swizzle: any 8 lanes
// next to each other read 128 bytes that lie in 32 different banks, for every head_dim here.
#pragma once

#include "attention/geometry.h"
#include "attention/kv_rows.cuh"
#include "attention/scores.cuh"
#include "attention/softmax.cuh"
#include "common/memory.h"
#include "common/types.h"
#include "common/warp.h"
#include "ptx/cp_async.h"
#include "ptx/griddepcontrol.h"
#include "ptx/ld_global.h"

namespace spark {

constexpr int GQA_WARPS = 8;  // query rows of a CTA at most
constexpr int GQA_CHUNK = 8;  // elements of a 16-byte vector

// How the lanes of a warp share the keys of a tile.
template <int HEAD_DIM, int TILE>
struct GqaLanes {
  static constexpr int CHUNKS = HEAD_DIM / GQA_CHUNK;
  static constexpr int LANES = CHUNKS % 16 == 0 ? 16 : CHUNKS % 8 == 0 ? 8 : 4;  // that share one key's row
  static constexpr int PER_LANE = CHUNKS / LANES;                                // chunks of a row that a lane takes
  static constexpr int KEYS = kWarpSize / LANES;                                 // keys read at a time
  static constexpr int STEPS = ceil_div(TILE, KEYS);
  static constexpr int SLOTS = STEPS <= 2 ? 2 : STEPS <= 4 ? 4 : STEPS <= 8 ? 8 : 16;  // steps, to a power of two
  static constexpr int COPIES = LANES / SLOTS;  // lanes that end with the same key's score
  static_assert(TILE <= kWarpSize, "a lane looks up, and ends with the score of, one key");
  static_assert(STEPS <= SLOTS && SLOTS <= LANES, "every score finds a lane");
};

// What one warp carries through the keys.
template <int HEAD_DIM, int TILE>
struct GqaState {
  float acc[GqaLanes<HEAD_DIM, TILE>::PER_LANE][GQA_CHUNK];  // of this lane's columns and keys, until the end
  float max;
  float sum;  // of this lane's keys, until the end
};

// global -> shared: keys [kv, kv + TILE) of K and V; keys at or past `kv_end` are zero and not read.
// Lane l of every warp has looked up the row of key kv + l.
template <typename T, int HEAD_DIM, int TILE, int STAGES, typename Rows>
SPARK_DEVICE void copy_gqa_tile(T* k_smem, T* v_smem, const T* k_gmem, const T* v_gmem, const AttentionParams& p,
                                typename Rows::Index mine, int kv, int kv_end) {
  constexpr int CHUNKS = HEAD_DIM / GQA_CHUNK;
  constexpr int TOTAL = TILE * CHUNKS;
  // whole warps stay in the loop: from_lane asks every lane
  for (int first = warp_id() * kWarpSize; first < TOTAL; first += static_cast<int>(blockDim.x)) {
    const int index = first + lane_id();
    const int row = index < TOTAL ? index / CHUNKS : TILE - 1;
    const int col = index % CHUNKS * GQA_CHUNK;
    const typename Rows::Index at = Rows::from_lane(mine, kv, row);
    if (index >= TOTAL) continue;
    const T* k_row = Rows::row(k_gmem, p.k_stride, at) + col;
    const T* v_row = Rows::row(v_gmem, p.v_stride, at) + col;
    const bool valid = kv + row < kv_end;
    if constexpr (STAGES == 1) {
      Vec16 k_vector = {}, v_vector = {};
      if (valid) {
        k_vector = ptx::ld_global_nc_16(k_row);
        v_vector = ptx::ld_global_nc_16(v_row);
      }
      *reinterpret_cast<Vec16*>(k_smem + row * HEAD_DIM + col) = k_vector;
      *reinterpret_cast<Vec16*>(v_smem + row * HEAD_DIM + col) = v_vector;
    } else {
      ptx::cp_async_cg_16(k_smem + row * HEAD_DIM + col, k_row, valid);
      ptx::cp_async_cg_16(v_smem + row * HEAD_DIM + col, v_row, valid);
    }
  }
}

// Sums each of the SLOTS values over LANES lanes next to each other, at half of the shuffles that a butterfly for each
// would take: a lane hands over the half of its values that other lanes end with. Lane j ends with the sum of value
// j / (LANES / SLOTS) in value[0]. LIVE values are left to sum. (Recursive: ptxas must see every index as a constant.)
template <int LANES, int LIVE, int SLOTS>
SPARK_DEVICE void reduce_scatter(float (&value)[SLOTS]) {
  constexpr int STEP = LANES / 2;
  if constexpr (LIVE > 1) {
    const bool upper = (lane_id() & STEP) != 0;
#pragma unroll
    for (int i = 0; i < LIVE / 2; ++i) {
      const float kept = upper ? value[i + LIVE / 2] : value[i];
      const float given = upper ? value[i] : value[i + LIVE / 2];
      value[i] = kept + __shfl_xor_sync(kFullMask, given, STEP);
    }
    reduce_scatter<STEP, LIVE / 2>(value);
  } else if constexpr (LANES > 1) {
    value[0] += __shfl_xor_sync(kFullMask, value[0], STEP);
    reduce_scatter<STEP, 1>(value);
  }
}

// q . k of the key that this lane ends with.
template <typename T, int HEAD_DIM, int TILE>
SPARK_DEVICE float dot_gqa(const float (&q)[GqaLanes<HEAD_DIM, TILE>::PER_LANE][GQA_CHUNK], const T* k_smem) {
  using Lanes = GqaLanes<HEAD_DIM, TILE>;
  const int chunk = lane_id() % Lanes::LANES;
  float dot[Lanes::SLOTS] = {};
#pragma unroll
  for (int step = 0; step < Lanes::STEPS; ++step) {
    const int key = step * Lanes::KEYS + lane_id() / Lanes::LANES;
    if ((step + 1) * Lanes::KEYS > TILE && key >= TILE) continue;  // compiled for the last step alone
#pragma unroll
    for (int i = 0; i < Lanes::PER_LANE; ++i) {
      const Vec16 vector =
          *reinterpret_cast<const Vec16*>(k_smem + key * HEAD_DIM + (chunk + Lanes::LANES * i) * GQA_CHUNK);
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const float2 pair = unpack2<T>(vector.word[w]);
        dot[step] = fmaf(q[i][2 * w], pair.x, dot[step]);
        dot[step] = fmaf(q[i][2 * w + 1], pair.y, dot[step]);
      }
    }
  }
  reduce_scatter<Lanes::LANES, Lanes::SLOTS>(dot);
  return dot[0];
}

// acc += P V over the tile; `weight` is that of the key that this lane ended with.
template <typename T, int HEAD_DIM, int TILE>
SPARK_DEVICE void accumulate_gqa(GqaState<HEAD_DIM, TILE>& state, float weight, const T* v_smem) {
  using Lanes = GqaLanes<HEAD_DIM, TILE>;
  const int chunk = lane_id() % Lanes::LANES;
  const int first_lane = lane_id() - chunk;
#pragma unroll
  for (int step = 0; step < Lanes::STEPS; ++step) {
    const float key_weight = __shfl_sync(kFullMask, weight, first_lane + step * Lanes::COPIES);
    const int key = step * Lanes::KEYS + lane_id() / Lanes::LANES;
    if ((step + 1) * Lanes::KEYS > TILE && key >= TILE) continue;
#pragma unroll
    for (int i = 0; i < Lanes::PER_LANE; ++i) {
      const Vec16 vector =
          *reinterpret_cast<const Vec16*>(v_smem + key * HEAD_DIM + (chunk + Lanes::LANES * i) * GQA_CHUNK);
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const float2 pair = unpack2<T>(vector.word[w]);
        state.acc[i][2 * w] = fmaf(key_weight, pair.x, state.acc[i][2 * w]);
        state.acc[i][2 * w + 1] = fmaf(key_weight, pair.y, state.acc[i][2 * w + 1]);
      }
    }
  }
}

// One tile of one query row: scores, weights, and the state under the new maximum. `kv` is the tile's first key.
template <typename T, int HEAD_DIM, int TILE>
SPARK_DEVICE void reduce_gqa_tile(GqaState<HEAD_DIM, TILE>& state,
                                  const float (&q)[GqaLanes<HEAD_DIM, TILE>::PER_LANE][GQA_CHUNK],
                                  const AttentionParams& p, const KvRange& keys, const uint8_t* mask, const T* k_smem,
                                  const T* v_smem, int kv) {
  using Lanes = GqaLanes<HEAD_DIM, TILE>;
  const int key = lane_id() % Lanes::LANES / Lanes::COPIES * Lanes::KEYS + lane_id() / Lanes::LANES;
  const float dot = dot_gqa<T, HEAD_DIM, TILE>(q, k_smem);
  const float score = key < TILE && key_visible(keys, mask, kv + key) ? score_log2(p, dot) : kNegInf;
  const float max = fmaxf(state.max, warp_max(score));
  const float factor = rescale_factor(state.max, max);
  const float weight = exp2_fast(score - softmax_shift(max));
  state.max = max;
  state.sum = fmaf(state.sum, factor, weight);
#pragma unroll
  for (int i = 0; i < Lanes::PER_LANE; ++i) {
#pragma unroll
    for (int j = 0; j < GQA_CHUNK; ++j) state.acc[i][j] *= factor;
  }
  accumulate_gqa<T, HEAD_DIM, TILE>(state, weight, v_smem);
}

// global -> registers: this lane's columns of the row's q.
template <typename T, int HEAD_DIM, int TILE>
SPARK_DEVICE void load_gqa_query(float (&q)[GqaLanes<HEAD_DIM, TILE>::PER_LANE][GQA_CHUNK], const AttentionParams& p,
                                 int batch, const QueryRow& row) {
  using Lanes = GqaLanes<HEAD_DIM, TILE>;
  const T* q_gmem = static_cast<const T*>(p.q) + element_offset(p.q_stride, batch, row.position, row.head) +
                    lane_id() % Lanes::LANES * GQA_CHUNK;
#pragma unroll
  for (int i = 0; i < Lanes::PER_LANE; ++i) {
    Vec16 vector = {};
    if (row.valid) vector = *reinterpret_cast<const Vec16*>(q_gmem + Lanes::LANES * i * GQA_CHUNK);
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const float2 pair = unpack2<T>(vector.word[w]);
      q[i][2 * w] = pair.x;
      q[i][2 * w + 1] = pair.y;
    }
  }
}

// registers -> global: the row's state, summed over the lanes, as this split's partials.
template <int HEAD_DIM, int TILE>
SPARK_DEVICE void store_gqa_partials(GqaState<HEAD_DIM, TILE>& state, const DecodeParams& p, int batch,
                                     const QueryRow& row, int split) {
  using Lanes = GqaLanes<HEAD_DIM, TILE>;
  // each key was counted by COPIES lanes, a power of two: the quotient is exact
  const float sum = warp_sum(state.sum) * (1.0f / Lanes::COPIES);
#pragma unroll
  for (int i = 0; i < Lanes::PER_LANE; ++i) {
#pragma unroll
    for (int j = 0; j < GQA_CHUNK; ++j) {
#pragma unroll
      for (int step = Lanes::LANES; step < kWarpSize; step *= 2) {
        state.acc[i][j] += __shfl_xor_sync(kFullMask, state.acc[i][j], step);
      }
    }
  }
  const int64_t partial = partial_index(batch, p.qo_len, row.position, p.num_qo_heads, row.head, p.num_splits, split);
  if (lane_id() < Lanes::LANES) {
    float* acc_gmem = p.partials.acc + partial * HEAD_DIM + lane_id() * GQA_CHUNK;
#pragma unroll
    for (int i = 0; i < Lanes::PER_LANE; ++i) {
      const float (&acc)[GQA_CHUNK] = state.acc[i];
      float4* chunk_gmem = reinterpret_cast<float4*>(acc_gmem + Lanes::LANES * i * GQA_CHUNK);
      chunk_gmem[0] = make_float4(acc[0], acc[1], acc[2], acc[3]);
      chunk_gmem[1] = make_float4(acc[4], acc[5], acc[6], acc[7]);
    }
  }
  if (lane_id() == 0) {
    p.partials.max[partial] = state.max;
    p.partials.sum[partial] = sum;
  }
}

// The whole reduction of one CTA of as many warps as it has query rows. Shared memory: [STAGES][K, V][TILE, HEAD_DIM].
template <typename T, int HEAD_DIM, int TILE, int STAGES, typename Rows>
SPARK_DEVICE void reduce_split_gqa(const DecodeParams& p) {
  constexpr int ELEMENTS = TILE * HEAD_DIM;  // of one tile of K or V
  static_assert(STAGES == 1 || STAGES == 2, "one tile, or one tile and the next in flight");
  static_assert(GQA_WARPS * kWarpSize == SPARK_BLOCK, "one warp per query row");
  static_assert(2 * STAGES * ELEMENTS * sizeof(T) == SPARK_DYNAMIC_SMEM, "flags.yaml and the kernel disagree on smem");

  DYNAMIC_SHARED(T, kv_smem);

  ptx::griddepcontrol_wait();               // the kernel ahead may have written what is read here
  ptx::griddepcontrol_launch_dependents();  // the merge may take its place on the SMs: it waits for the partials itself

  // by way of query_block ptxas took 84 registers: 2 CTAs an SM, not 3; docs/kernels/fa_split_gqa.md
  const int passes = gridDim.x / p.num_kv_heads;
  const int kv_head = blockIdx.x / passes;
  const int warps = blockDim.x / kWarpSize;
  const int split = blockIdx.y;
  const int batch = blockIdx.z;
  const int kv_len = sequence_kv_len(p, batch);
  const KvRange range = split_range(visible_range(p, p.qo_len, kv_len), split, p.num_splits, TILE);
  const int num_tiles = ceil_div(range.end - range.begin, TILE);
  const QueryRow row = query_row(p, kv_head, blockIdx.x % passes * warps + warp_id(), kv_len);
  const uint8_t* mask = mask_row(p, batch, row.head, row.position);

  const Rows rows(p, batch);
  const T* k_gmem = rows.template head_base<T>(p.k, p.k_stride, kv_head);
  const T* v_gmem = rows.template head_base<T>(p.v, p.v_stride, kv_head);
  const auto first_key = [&](int tile) { return range.begin + tile * TILE; };
  const auto look_up = [&](int tile) { return rows.look_up(first_key(tile) + lane_id(), range.end); };
  const auto tile_smem = [&](int tile) { return kv_smem + tile % STAGES * 2 * ELEMENTS; };
  const auto copy_tile = [&](int tile, typename Rows::Index mine) {
    T* k_smem = tile_smem(tile);
    copy_gqa_tile<T, HEAD_DIM, TILE, STAGES, Rows>(k_smem, k_smem + ELEMENTS, k_gmem, v_gmem, p, mine, first_key(tile),
                                                   range.end);
  };

  typename Rows::Index ahead = look_up(0);  // of the tile that is copied next
  if constexpr (STAGES == 2) {
    if (num_tiles > 0) copy_tile(0, ahead);
    ahead = look_up(1);
  }
  float q[GqaLanes<HEAD_DIM, TILE>::PER_LANE][GQA_CHUNK];
  load_gqa_query<T, HEAD_DIM, TILE>(q, p, batch, row);

  GqaState<HEAD_DIM, TILE> state = {};
  state.max = kNegInf;
  for (int tile = 0; tile < num_tiles; ++tile) {
    if constexpr (STAGES == 1) {
      const typename Rows::Index current = ahead;
      ahead = look_up(tile + 1);
      copy_tile(tile, current);
      __syncthreads();  // the tile is written
    } else {
      ptx::cp_async_wait_all();
      __syncthreads();  // the tile is written, and all warps have read the one before it, whose stage is refilled next
      if (tile + 1 < num_tiles) copy_tile(tile + 1, ahead);
      ahead = look_up(tile + 2);
    }
    const T* k_smem = tile_smem(tile);
    const int kv = first_key(tile);
    if (row.keys.begin < kv + TILE &&
        kv < row.keys.end) {  // whole warps: a row that sees none of the tile keeps its state
      reduce_gqa_tile<T, HEAD_DIM, TILE>(state, q, p, row.keys, mask, k_smem, k_smem + ELEMENTS, kv);
    }
    if constexpr (STAGES == 1) __syncthreads();  // all warps have read the tile before the next one overwrites it
  }
  if (row.valid) store_gqa_partials<HEAD_DIM, TILE>(state, p, batch, row, split);
}

}  // namespace spark
