// Split-KV decode on tensor cores, over contiguous or paged K and V.
//
// grid: [num_kv_heads * passes, num_splits, batch]; one CTA reduces the keys [begin, end) of its split for 16 packed
// query rows (the group's heads times qo_len) of one kv head; passes = ceil(group * qo_len / 16).
// Each warp owns 16 of the BLOCK_KV rows of every tile: it copies them, multiplies them and keeps its own softmax
// state, so the main loop has no CTA barrier. The warps' states are merged once, in shared memory, at the end.
#pragma once

#include "attention/geometry.h"
#include "attention/kv_rows.cuh"
#include "attention/scores.cuh"
#include "attention/softmax.cuh"
#include "attention/swizzle.h"
#include "common/memory.h"
#include "common/types.h"
#include "common/warp.h"
#include "ptx/cp_async.h"
#include "ptx/griddepcontrol.h"
#include "ptx/ldmatrix.h"
#include "ptx/mma.h"

namespace spark {

constexpr int MMA_ROWS = 16;  // query rows of one m16n8k16, and the kv rows that a warp owns in a tile

// What one warp carries through the keys. A thread holds rows `lane / 4` and `lane / 4 + 8`.
template <int HEAD_DIM>
struct MmaDecodeState {
  float acc[HEAD_DIM / 8][4];  // [16, HEAD_DIM] in m16n8 fragments
  float max[2];
  float sum[2];  // of this thread's columns only, until the end
};

// Where the A fragments of Q live between tiles.
enum class QFrag {
  resident,  // in registers
  reload,    // in shared memory, read anew for every tile: HEAD_DIM / 4 registers a thread fewer are held
};

template <typename T, int HEAD_DIM, QFrag>
struct Query;

// The 16 packed rows of Q, global -> A fragments, no shared memory in between. Rows of padding are zero.
template <typename T, int HEAD_DIM>
struct Query<T, HEAD_DIM, QFrag::resident> {
  uint32_t frag[HEAD_DIM / 16][4];

  SPARK_DEVICE void load(const DecodeParams& p, int batch, const QueryRow (&rows)[2]) {
    const int pair = (lane_id() % 4) * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const T* q_gmem =
          static_cast<const T*>(p.q) + element_offset(p.q_stride, batch, rows[half].position, rows[half].head) + pair;
#pragma unroll
      for (int k = 0; k < HEAD_DIM / 16; ++k) {
        frag[k][half] = rows[half].valid ? *reinterpret_cast<const uint32_t*>(q_gmem + k * 16) : 0u;
        frag[k][half + 2] = rows[half].valid ? *reinterpret_cast<const uint32_t*>(q_gmem + k * 16 + 8) : 0u;
      }
    }
  }

  // Columns [16 k, 16 k + 16).
  SPARK_DEVICE void fragment(uint32_t (&q_frag)[4], int k) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) q_frag[i] = frag[k][i];
  }
};

// The same rows in shared memory, [16, HEAD_DIM] swizzled.
template <typename T, int HEAD_DIM>
struct Query<T, HEAD_DIM, QFrag::reload> {
  T* q_smem;

  // By the whole CTA; a barrier must follow.
  template <int WARPS>
  SPARK_DEVICE void stage(const DecodeParams& p, int batch, int kv_head, int first_row) const {
    constexpr int CHUNKS = HEAD_DIM / 8;
    for (int index = threadIdx.x; index < MMA_ROWS * CHUNKS; index += WARPS * 32) {
      const int r = index / CHUNKS;
      const int chunk = index % CHUNKS;
      const QueryRow row = query_row(p, kv_head, first_row + r, 0);
      const T* q_gmem = static_cast<const T*>(p.q) + element_offset(p.q_stride, batch, row.position, row.head);
      Vec16 vector = {};
      if (row.valid) vector = *reinterpret_cast<const Vec16*>(q_gmem + chunk * 8);
      *reinterpret_cast<Vec16*>(q_smem + swizzled_offset<HEAD_DIM>(r, chunk)) = vector;
    }
  }

  SPARK_DEVICE void fragment(uint32_t (&q_frag)[4], int k) const {
    ptx::ldmatrix_x4(q_frag, q_smem + swizzled_offset<HEAD_DIM>(lane_id() % 16, 2 * k + lane_id() / 16));
  }
};

// global -> shared: this warp's 16 rows from key `kv` on; rows at or past `kv_end` are filled with zeros and not read.
// Lane l has looked up the row of key kv + l % 16.
template <typename T, int HEAD_DIM, typename Rows>
SPARK_DEVICE void copy_rows_async(T* rows_smem, const T* base_gmem, const TensorStrides& stride,
                                  typename Rows::Index mine, int kv, int kv_end) {
  constexpr int CHUNKS = HEAD_DIM / 8;
  static_assert(MMA_ROWS * CHUNKS % 32 == 0, "every lane copies the same number of chunks");
  if constexpr (Rows::CONTIGUOUS && 32 % CHUNKS == 0) {
    // a lane stays in its column of chunks, so one pointer walks down the rows: 2 to 3 % at batch 1 against addresses
    // formed anew; H200, docs/kernels/decode.md
    constexpr int STEP = 32 / CHUNKS;
    const int chunk = lane_id() % CHUNKS;
    const int first = lane_id() / CHUNKS;
    const T* source = Rows::row(base_gmem, stride, Rows::from_lane(mine, kv, first)) + chunk * 8;
#pragma unroll
    for (int i = 0; i < MMA_ROWS / STEP; ++i) {
      const int row = first + i * STEP;
      ptx::cp_async_cg_16(rows_smem + swizzled_offset<HEAD_DIM>(row, chunk), source, kv + row < kv_end);
      source += STEP * stride.len;
    }
  } else {
#pragma unroll
    for (int i = 0; i < MMA_ROWS * CHUNKS / 32; ++i) {
      const int index = lane_id() + 32 * i;
      const int row = index / CHUNKS;
      const int chunk = index % CHUNKS;
      const T* row_gmem = Rows::row(base_gmem, stride, Rows::from_lane(mine, kv, row));
      ptx::cp_async_cg_16(rows_smem + swizzled_offset<HEAD_DIM>(row, chunk), row_gmem + chunk * 8, kv + row < kv_end);
    }
  }
}

// S = Q K^T  [16, 16 keys of this warp]
template <typename T, int HEAD_DIM, QFrag Q_FRAG>
SPARK_DEVICE void multiply_qk(float (&score)[2][4], const Query<T, HEAD_DIM, Q_FRAG>& query, const T* k_smem) {
  const int lane = lane_id();
  const int row = lane % 8 + 8 * (lane / 16);
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) score[n][i] = 0.0f;
  }
#pragma unroll
  for (int k = 0; k < HEAD_DIM / 16; ++k) {
    uint32_t q_frag[4];
    query.fragment(q_frag, k);
    uint32_t k_frag[4];  // keys 0-7: registers 0 and 1; keys 8-15: registers 2 and 3
    ptx::ldmatrix_x4(k_frag, k_smem + swizzled_offset<HEAD_DIM>(row, 2 * k + lane / 8 % 2));
    const uint32_t low[2] = {k_frag[0], k_frag[1]};
    const uint32_t high[2] = {k_frag[2], k_frag[3]};
    ptx::mma_m16n8k16<T>(score[0], q_frag, low, score[0]);
    ptx::mma_m16n8k16<T>(score[1], q_frag, high, score[1]);
  }
}

// Raw q . k -> scores in the log2 domain, -inf where a row does not see the key. `kv` is the key of this warp's first
// column.
SPARK_DEVICE void finish_scores(float (&score)[2][4], const AttentionParams& p, const QueryRow (&rows)[2],
                                const uint8_t* const* mask_smem, int kv) {
  const int first = kv + (lane_id() % 4) * 2;
  if (p.softcap != 0.0f) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) score[n][i] = soft_cap(p, score[n][i]);
    }
  }
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& s = score[n][i];
      s = contains(rows[i / 2].keys, first + n * 8 + i % 2) ? s * p.scale_log2 : kNegInf;
    }
  }
  if (p.mask == nullptr) return;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint8_t* mask = mask_smem[lane_id() / 4 + 8 * half];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float& s = score[n][2 * half + j];
        if (s != kNegInf && mask[first + n * 8 + j] == 0) s = kNegInf;  // -inf: outside of the keys, or hidden anyway
      }
    }
  }
}

// Scores -> weights, and the state under the new maximum.
template <int HEAD_DIM>
SPARK_DEVICE void update_softmax(MmaDecodeState<HEAD_DIM>& state, float (&score)[2][4]) {
  float factor[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float max = state.max[half];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        max = fmaxf(max, score[n][2 * half + j]);
      }
    }
    max = quad_max(max);
    factor[half] = rescale_factor(state.max[half], max);
    const float shift = softmax_shift(max);
    float sum = state.sum[half] * factor[half];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float& s = score[n][2 * half + j];
        s = exp2_fast(s - shift);
        sum += s;
      }
    }
    state.max[half] = max;
    state.sum[half] = sum;
  }
  // Multiplying by 1 changes nothing: skip it while no maximum of the warp moved.
  if (__any_sync(0xffffffffu, factor[0] != 1.0f || factor[1] != 1.0f)) {
#pragma unroll
    for (int n = 0; n < HEAD_DIM / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) state.acc[n][i] *= factor[i / 2];
    }
  }
}

// O += P V  [16, HEAD_DIM]; the score fragments are the A fragments of P as they lie.
template <typename T, int HEAD_DIM>
SPARK_DEVICE void multiply_pv(MmaDecodeState<HEAD_DIM>& state, const float (&weight)[2][4], const T* v_smem) {
  const uint32_t p_frag[4] = {pack2<T>(weight[0][0], weight[0][1]), pack2<T>(weight[0][2], weight[0][3]),
                              pack2<T>(weight[1][0], weight[1][1]), pack2<T>(weight[1][2], weight[1][3])};
  const int lane = lane_id();
  const int row = lane % 16;
#pragma unroll
  for (int n = 0; n < HEAD_DIM / 8; n += 2) {
    uint32_t v_frag[4];  // columns of chunk n: registers 0 and 1; of chunk n + 1: registers 2 and 3
    ptx::ldmatrix_x4_trans(v_frag, v_smem + swizzled_offset<HEAD_DIM>(row, n + lane / 16));
    const uint32_t low[2] = {v_frag[0], v_frag[1]};
    const uint32_t high[2] = {v_frag[2], v_frag[3]};
    ptx::mma_m16n8k16<T>(state.acc[n], p_frag, low, state.acc[n]);
    ptx::mma_m16n8k16<T>(state.acc[n + 1], p_frag, high, state.acc[n + 1]);
  }
}

// Puts this warp's state where all threads can read it: acc_smem [WARPS, 16, HEAD_DIM], max and sum [WARPS, 16].
template <int HEAD_DIM>
SPARK_DEVICE void publish_state(const MmaDecodeState<HEAD_DIM>& state, float* acc_smem, float* max_smem,
                                float* sum_smem) {
  const int lane = lane_id();
  float* warp_acc = acc_smem + warp_id() * MMA_ROWS * HEAD_DIM;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = lane / 4 + 8 * half;
    const float sum = quad_sum(state.sum[half]);
    if (lane % 4 == 0) {
      max_smem[warp_id() * MMA_ROWS + row] = state.max[half];
      sum_smem[warp_id() * MMA_ROWS + row] = sum;
    }
#pragma unroll
    for (int n = 0; n < HEAD_DIM / 8; ++n) {
      *reinterpret_cast<float2*>(warp_acc + swizzled_offset_fp32<HEAD_DIM>(row, n * 8 + (lane % 4) * 2)) =
          make_float2(state.acc[n][2 * half], state.acc[n][2 * half + 1]);
    }
  }
}

// shared -> global: the warps' states, merged, into this split's partials.
template <int HEAD_DIM, int WARPS>
SPARK_DEVICE void store_partials(const DecodeParams& p, int batch, int kv_head, int first_row, int split,
                                 const float* acc_smem, const float* max_smem, const float* sum_smem) {
  constexpr int VECTORS = HEAD_DIM / 4;
  for (int index = threadIdx.x; index < MMA_ROWS * VECTORS; index += WARPS * 32) {
    const int r = index / VECTORS;
    const int col = index % VECTORS * 4;
    const QueryRow row = query_row(p, kv_head, first_row + r, 0);
    if (!row.valid) break;  // rows only grow
    float max = kNegInf;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) max = fmaxf(max, max_smem[w * MMA_ROWS + r]);
    float4 acc = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float sum = 0.0f;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
      const float factor = rescale_factor(max_smem[w * MMA_ROWS + r], max);
      const float4 part =
          *reinterpret_cast<const float4*>(acc_smem + w * MMA_ROWS * HEAD_DIM + swizzled_offset_fp32<HEAD_DIM>(r, col));
      acc.x += factor * part.x;
      acc.y += factor * part.y;
      acc.z += factor * part.z;
      acc.w += factor * part.w;
      sum += factor * sum_smem[w * MMA_ROWS + r];
    }
    const int64_t partial = partial_index(batch, p.qo_len, row.position, p.num_qo_heads, row.head, p.num_splits, split);
    *reinterpret_cast<float4*>(p.partials.acc + partial * HEAD_DIM + col) = acc;
    if (col == 0) {
      p.partials.max[partial] = max;
      p.partials.sum[partial] = sum;
    }
  }
}

// The whole reduction of one CTA. Shared memory: K tiles, then V tiles, each [STAGES, BLOCK_KV, HEAD_DIM]; a warp
// touches rows [16 * warp, 16 * warp + 16) alone.
template <typename T, int HEAD_DIM, int STAGES, int BLOCK_KV, typename Rows, QFrag Q_FRAG = QFrag::resident>
SPARK_DEVICE void reduce_split_kv_mma(const DecodeParams& p) {
  constexpr int WARPS = BLOCK_KV / MMA_ROWS;
  constexpr int TILE = BLOCK_KV * HEAD_DIM;
  constexpr int PENDING = 2 * STAGES - 1;  // copy groups younger than the one that is waited for
  static_assert(WARPS * 32 == SPARK_BLOCK, "one warp per 16 rows of a tile");
  static_assert(2 * STAGES * TILE * sizeof(T) == SPARK_DYNAMIC_SMEM, "flags.yaml and the kernel disagree on smem");
  static_assert(WARPS * MMA_ROWS * HEAD_DIM * sizeof(float) <= SPARK_DYNAMIC_SMEM, "the merge reuses the K/V tiles");

  DYNAMIC_SHARED(T, kv_smem);
  SHARED_ARRAY(float, max_smem, BLOCK_KV);  // [WARPS, 16]
  SHARED_ARRAY(float, sum_smem, BLOCK_KV);
  SHARED_ARRAY(const uint8_t*, mask_smem, MMA_ROWS);

  ptx::griddepcontrol_launch_dependents();  // the merge may take its place on the SMs: it waits for the partials itself

  const int passes = gridDim.x / p.num_kv_heads;
  const int kv_head = blockIdx.x / passes;
  const int first_row = blockIdx.x % passes * MMA_ROWS;
  const int split = blockIdx.y;
  const int batch = blockIdx.z;
  const int kv_len = sequence_kv_len(p, batch);
  const KvRange range = split_range(visible_range(p, p.qo_len, kv_len), split, p.num_splits, BLOCK_KV);
  const int num_tiles = ceil_div(range.end - range.begin, BLOCK_KV);
  const QueryRow query_rows[2] = {query_row(p, kv_head, first_row + lane_id() / 4, kv_len),
                                  query_row(p, kv_head, first_row + lane_id() / 4 + 8, kv_len)};

  // rows of the mask wait in shared memory: as registers they would cost every call without a mask
  if (p.mask != nullptr) {
    const QueryRow row = query_row(p, kv_head, first_row + threadIdx.x % MMA_ROWS, kv_len);
    if (threadIdx.x < MMA_ROWS) mask_smem[threadIdx.x] = mask_row(p, batch, row.head, row.position);
    __syncthreads();  // the rows are written
  }

  const Rows rows(p, batch);
  const T* k_gmem = rows.template head_base<T>(p.k, p.k_stride, kv_head);
  const T* v_gmem = rows.template head_base<T>(p.v, p.v_stride, kv_head);
  const int warp_row = warp_id() * MMA_ROWS;
  T* k_smem = kv_smem + warp_row * HEAD_DIM;
  T* v_smem = k_smem + STAGES * TILE;
  const auto first_key = [&](int tile) { return range.begin + tile * BLOCK_KV + warp_row; };
  const auto look_up = [&](int tile) { return rows.look_up(first_key(tile) + lane_id() % MMA_ROWS, range.end); };
  const auto copy_tile = [&](T* tile_smem, const T* base_gmem, const TensorStrides& stride, int tile,
                             typename Rows::Index mine) {
    if (tile < num_tiles) {
      copy_rows_async<T, HEAD_DIM, Rows>(tile_smem + tile % STAGES * TILE, base_gmem, stride, mine, first_key(tile),
                                         range.end);
    }
    ptx::cp_async_commit_group();  // empty past the last tile, so that groups keep counting tiles
  };

  // global -> shared (tiles 0 .. STAGES - 1); all look-ups are under way before the first copy needs one
  typename Rows::Index index[STAGES];
#pragma unroll
  for (int tile = 0; tile < STAGES; ++tile) index[tile] = look_up(tile);
  typename Rows::Index ahead = look_up(STAGES);
#pragma unroll
  for (int tile = 0; tile < STAGES; ++tile) {
    copy_tile(k_smem, k_gmem, p.k_stride, tile, index[tile]);
    copy_tile(v_smem, v_gmem, p.v_stride, tile, index[tile]);
  }

  Query<T, HEAD_DIM, Q_FRAG> query;
  if constexpr (Q_FRAG == QFrag::resident) {
    query.load(p, batch, query_rows);
  } else {
    SHARED_ARRAY(T, q_smem, MMA_ROWS * HEAD_DIM);
    query.q_smem = q_smem;
    query.template stage<WARPS>(p, batch, kv_head, first_row);
    __syncthreads();  // Q is written
  }

  MmaDecodeState<HEAD_DIM> state = {};
  state.max[0] = state.max[1] = kNegInf;
  for (int tile = 0; tile < num_tiles; ++tile) {
    const int stage_offset = tile % STAGES * TILE;
    const typename Rows::Index current = ahead;  // of tile + STAGES, looked up one tile ago
    ahead = look_up(tile + STAGES + 1);
    float score[2][4];

    ptx::cp_async_wait_group<PENDING>();
    __syncwarp();  // K of this tile, as copied by all lanes, is visible
    multiply_qk<T, HEAD_DIM>(score, query, k_smem + stage_offset);
    __syncwarp();  // all lanes have read K before its stage is refilled
    copy_tile(k_smem, k_gmem, p.k_stride, tile + STAGES, current);

    finish_scores(score, p, query_rows, mask_smem, first_key(tile));
    update_softmax<HEAD_DIM>(state, score);

    ptx::cp_async_wait_group<PENDING>();
    __syncwarp();  // V of this tile is visible
    multiply_pv<T, HEAD_DIM>(state, score, v_smem + stage_offset);
    __syncwarp();  // all lanes have read V before its stage is refilled
    copy_tile(v_smem, v_gmem, p.v_stride, tile + STAGES, current);
  }
  ptx::cp_async_wait_group<0>();
  __syncthreads();  // every warp has read its tiles: their memory now holds the states
  float* acc_smem = reinterpret_cast<float*>(kv_smem);
  publish_state<HEAD_DIM>(state, acc_smem, max_smem, sum_smem);
  __syncthreads();  // all states are written
  store_partials<HEAD_DIM, WARPS>(p, batch, kv_head, first_row, split, acc_smem, max_smem, sum_smem);
}

}  // namespace spark
