// Prefill on CUDA cores, for every arch, over contiguous, packed or paged K and V.
//
// grid: [query tiles of the longest sequence, num_kv_heads, batch]; one CTA computes ROWS packed query rows (positions
// times the group's heads) of one kv head. A row belongs to LANES neighbouring lanes, each of which holds HEAD_DIM /
// LANES dims of q and of the accumulator in registers; q . k is summed over them by shuffles whose mask names the row's
// lanes alone, so rows of one warp may stop at different keys. A tile of TILE keys and values is staged once for all
// rows.
#pragma once

#include "attention/kv_rows.cuh"
#include "attention/scores.cuh"
#include "common/memory.h"
#include "common/types.h"
#include "common/warp.h"
#include "prefill/query_tile.cuh"

namespace spark {

constexpr int PREFILL_KEYS = 4;  // keys that a row takes at a time: their loads and shuffles overlap

// Keys of a tile: K and V of a tile fit 48 KiB of static shared memory.
template <int HEAD_DIM>
inline constexpr int SCALAR_PREFILL_TILE = HEAD_DIM <= 128 ? 64 : 32;

// The dims that a lane holds: every LANES-th 16-byte vector, so that the lanes of a row read neighbouring ones.
template <int HEAD_DIM, int LANES>
struct LaneDims {
  static_assert(HEAD_DIM % (8 * LANES) == 0,
                "a lane loads whole 16-byte vectors: head_dim 32 needs lanes=4, 8 lanes need a multiple of 64");
  static constexpr int COUNT = HEAD_DIM / LANES;
  static constexpr int VECTORS = COUNT / 8;

  SPARK_DEVICE static int offset(int vector) { return (vector * LANES + lane_id() % LANES) * 8; }
};

// global -> shared: K and V of keys [kv, kv + TILE) in one pass; keys at or past `kv_end` are zero and not read.
template <typename T, int HEAD_DIM, int TILE, typename Rows>
SPARK_DEVICE void load_kv_tile(T* k_smem, T* v_smem, const PrefillParams& p, const Rows& rows, const T* k_gmem,
                               const T* v_gmem, int kv, int kv_end) {
  constexpr int CHUNKS = HEAD_DIM / 8;
  for (int index = threadIdx.x; index < TILE * CHUNKS; index += SPARK_BLOCK) {
    const int row = index / CHUNKS;
    const int col = index % CHUNKS * 8;
    Vec16 k = {}, v = {};
    if (kv + row < kv_end) {
      const typename Rows::Index at = rows.look_up(kv + row, kv_end);
      k = *reinterpret_cast<const Vec16*>(Rows::row(k_gmem, p.k_stride, at) + col);
      v = *reinterpret_cast<const Vec16*>(Rows::row(v_gmem, p.v_stride, at) + col);
    }
    *reinterpret_cast<Vec16*>(k_smem + row * HEAD_DIM + col) = k;
    *reinterpret_cast<Vec16*>(v_smem + row * HEAD_DIM + col) = v;
  }
}

template <typename T, int HEAD_DIM, int LANES>
SPARK_DEVICE void load_query(float (&q)[HEAD_DIM / LANES], const T* q_gmem, bool valid) {
  using Dims = LaneDims<HEAD_DIM, LANES>;
#pragma unroll
  for (int i = 0; i < Dims::VECTORS; ++i) {
    Vec16 vector = {};
    if (valid) vector = *reinterpret_cast<const Vec16*>(q_gmem + Dims::offset(i));
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const float2 pair = unpack2<T>(vector.word[w]);
      q[8 * i + 2 * w] = pair.x;
      q[8 * i + 2 * w + 1] = pair.y;
    }
  }
}

// This lane's part of q . k.
template <typename T, int HEAD_DIM, int LANES>
SPARK_DEVICE float partial_dot(const float (&q)[HEAD_DIM / LANES], const T* key_smem) {
  using Dims = LaneDims<HEAD_DIM, LANES>;
  float dot = 0.0f;
#pragma unroll
  for (int i = 0; i < Dims::VECTORS; ++i) {
    const Vec16 vector = *reinterpret_cast<const Vec16*>(key_smem + Dims::offset(i));
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const float2 pair = unpack2<T>(vector.word[w]);
      dot = fmaf(q[8 * i + 2 * w], pair.x, dot);
      dot = fmaf(q[8 * i + 2 * w + 1], pair.y, dot);
    }
  }
  return dot;
}

// acc += weight * v on this lane's dims.
template <typename T, int HEAD_DIM, int LANES>
SPARK_DEVICE void accumulate_value(float (&acc)[HEAD_DIM / LANES], float weight, const T* value_smem) {
  using Dims = LaneDims<HEAD_DIM, LANES>;
#pragma unroll
  for (int i = 0; i < Dims::VECTORS; ++i) {
    const Vec16 vector = *reinterpret_cast<const Vec16*>(value_smem + Dims::offset(i));
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const float2 pair = unpack2<T>(vector.word[w]);
      acc[8 * i + 2 * w] = fmaf(weight, pair.x, acc[8 * i + 2 * w]);
      acc[8 * i + 2 * w + 1] = fmaf(weight, pair.y, acc[8 * i + 2 * w + 1]);
    }
  }
}

// What a row carries through the keys, the same in all of its lanes but for the accumulator.
template <int DIMS>
struct ScalarPrefillState {
  float acc[DIMS];
  float max;
  float sum;
};

// One row over PREFILL_KEYS keys from `kv` on, whose rows start at k_smem and v_smem.
template <typename T, int HEAD_DIM, int LANES>
SPARK_DEVICE void attend(ScalarPrefillState<HEAD_DIM / LANES>& state, const float (&q)[HEAD_DIM / LANES],
                         const PrefillParams& p, const KvRange& keys, const uint8_t* mask, unsigned lanes,
                         const T* k_smem, const T* v_smem, int kv) {
  float score[PREFILL_KEYS];
#pragma unroll
  for (int i = 0; i < PREFILL_KEYS; ++i) score[i] = partial_dot<T, HEAD_DIM, LANES>(q, k_smem + i * HEAD_DIM);
  float max = state.max;
#pragma unroll
  for (int i = 0; i < PREFILL_KEYS; ++i) {
    const float dot = group_sum<LANES>(score[i], lanes);
    score[i] = key_visible(keys, mask, kv + i) ? score_log2(p, dot) : kNegInf;
    max = fmaxf(max, score[i]);
  }
  const float factor = rescale_factor(state.max, max);
  const float shift = softmax_shift(max);
  state.max = max;
  state.sum *= factor;
#pragma unroll
  for (float& x : state.acc) x *= factor;
#pragma unroll
  for (int i = 0; i < PREFILL_KEYS; ++i) {
    const float weight = exp2_fast(score[i] - shift);
    state.sum += weight;
    accumulate_value<T, HEAD_DIM, LANES>(state.acc, weight, v_smem + i * HEAD_DIM);
  }
}

template <typename T, int HEAD_DIM, int LANES>
SPARK_DEVICE void store_row(const PrefillParams& p, const Sequence& seq, const QueryRow& row,
                            const ScalarPrefillState<HEAD_DIM / LANES>& state) {
  using Dims = LaneDims<HEAD_DIM, LANES>;
  const FinishedRow finished = finish_row(p, {state.max, state.sum}, row.head);
  T* out_gmem = static_cast<T*>(p.out) + row_offset(p.out_stride, seq, row);
#pragma unroll
  for (int i = 0; i < Dims::VECTORS; ++i) {
    Vec16 vector;
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      vector.word[w] =
          pack2<T>(state.acc[8 * i + 2 * w] * finished.scale, state.acc[8 * i + 2 * w + 1] * finished.scale);
    }
    *reinterpret_cast<Vec16*>(out_gmem + Dims::offset(i)) = vector;
  }
  if (lane_id() % LANES == 0) store_lse(p, seq, row, finished.lse);
}

template <typename T, int HEAD_DIM, int LANES, int ROWS, int TILE, typename Rows>
__global__ void __launch_bounds__(SPARK_BLOCK) attn_prefill_split_q_kernel(const __grid_constant__ PrefillParams p) {
  static_assert(ROWS * LANES == SPARK_BLOCK, "one query row per group of lanes");
  static_assert(TILE % PREFILL_KEYS == 0, "a row's keys lie in one tile");
  static_assert(SPARK_DYNAMIC_SMEM == 0 && 2 * TILE * HEAD_DIM * sizeof(T) <= 48 * 1024,
                "all shared memory is static, which ends at 48 KiB");
  SHARED_ARRAY(T, k_smem, TILE * HEAD_DIM);
  SHARED_ARRAY(T, v_smem, TILE * HEAD_DIM);

  const int kv_head = blockIdx.y;
  const Sequence seq = sequence_of(p, blockIdx.z);
  const int first_row = first_row_of_block(p, seq, ROWS);
  if (first_row < 0) return;  // the whole CTA
  const KvRange range = rows_view(p, seq, first_row, ROWS).some;
  const QueryRow row = query_row(p, kv_head, first_row + threadIdx.x / LANES, seq.qo_len, seq.kv_len);
  const unsigned lanes = ((1u << LANES) - 1) << (lane_id() / LANES * LANES);
  const uint8_t* mask = mask_row(p, seq.batch, row.head, row.position);
  const Rows rows(p, seq.batch);
  const T* k_gmem = rows.template head_base<T>(p.k, p.k_stride, kv_head);
  const T* v_gmem = rows.template head_base<T>(p.v, p.v_stride, kv_head);

  float q[HEAD_DIM / LANES];
  load_query<T, HEAD_DIM, LANES>(q, static_cast<const T*>(p.q) + row_offset(p.q_stride, seq, row), row.valid);
  ScalarPrefillState<HEAD_DIM / LANES> state = {};
  state.max = kNegInf;
  for (int kv = range.begin; kv < range.end; kv += TILE) {
    load_kv_tile<T, HEAD_DIM, TILE, Rows>(k_smem, v_smem, p, rows, k_gmem, v_gmem, kv, range.end);
    __syncthreads();  // the tile is written
    // this row's keys of the tile, from the multiple of PREFILL_KEYS on where rows of a warp read one address
    const int begin = max(row.keys.begin - kv, 0) / PREFILL_KEYS * PREFILL_KEYS;
    const int end = min(row.keys.end - kv, TILE);
    for (int j = begin; j < end; j += PREFILL_KEYS) {
      attend<T, HEAD_DIM, LANES>(state, q, p, row.keys, mask, lanes, k_smem + j * HEAD_DIM, v_smem + j * HEAD_DIM,
                                 kv + j);
    }
    __syncthreads();  // all rows have read the tile before the next one overwrites it
  }
  if (row.valid) store_row<T, HEAD_DIM, LANES>(p, seq, row, state);
}

}  // namespace spark
