// Split-KV decode on tensor cores, over contiguous or paged K and V.
//
// grid: [num_kv_heads * passes, num_splits, batch]; one CTA reduces the keys [begin, end) of its split for ROWS packed
// query rows (the group's heads times qo_len) of one kv head; passes = ceil(group * qo_len / ROWS).
// Each warp owns 16 of the BLOCK_KV rows of every tile: it copies them, multiplies them and keeps its own softmax
// state, so the main loop has no CTA barrier. The warps' states are merged once, in shared memory, at the end.
#pragma once

#include "attention/decode_tile.cuh"
#include "attention/kv_rows.cuh"
#include "common/memory.h"
#include "ptx/griddepcontrol.h"

namespace spark {

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

  template <int HALVES>
  SPARK_DEVICE void load(const DecodeParams& p, int batch, const QueryRow (&rows)[HALVES]) {
    const int pair = (lane_id() % 4) * 2;
#pragma unroll
    for (int k = 0; HALVES == 1 && k < HEAD_DIM / 16; ++k) {
      frag[k][1] = frag[k][3] = 0u;
      asm(""
          : "+r"(frag[k][1]), "+r"(frag[k][3]));  // held: mma takes four registers in a row, else copied for each tile
    }
#pragma unroll
    for (int half = 0; half < HALVES; ++half) {
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

// shared -> global: the warps' states, merged, into this split's partials.
template <int HEAD_DIM, int WARPS, int ROWS>
SPARK_DEVICE void store_partials(const DecodeParams& p, int batch, int kv_head, int first_row, int split,
                                 float* const (&acc_smem)[2], const float* max_smem, const float* sum_smem) {
  constexpr int VECTORS = HEAD_DIM / 4;
  const int count = p.group * p.qo_len - first_row;
#pragma unroll 1
  for (int index = threadIdx.x; index < ROWS * VECTORS; index += WARPS * 32) {
    const int r = index / VECTORS;
    const int col = index % VECTORS * 4;
    if (r >= count) break;
    const float* row_acc = (ROWS == 8 || r < 8 ? acc_smem[0] : acc_smem[1]) + state_offset<HEAD_DIM>(r % 8, col);
    float warp_max[WARPS], warp_sum[WARPS];
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
      warp_max[w] = max_smem[r * WARPS + w];
      warp_sum[w] = sum_smem[r * WARPS + w];
    }
    float max = kNegInf;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) max = fmaxf(max, warp_max[w]);
    float4 acc = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float sum = 0.0f;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
      const float factor = rescale_factor(warp_max[w], max);
      const float4 part = *reinterpret_cast<const float4*>(row_acc + w * 8 * HEAD_DIM);
      acc.x += factor * part.x;
      acc.y += factor * part.y;
      acc.z += factor * part.z;
      acc.w += factor * part.w;
      sum += factor * warp_sum[w];
    }
    const QueryRow row = query_row(p, kv_head, first_row + r, 0);
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
template <typename T, int HEAD_DIM, int STAGES, int BLOCK_KV, typename Rows, QFrag Q_FRAG, int ROWS>
SPARK_DEVICE void reduce_split_kv_mma(const DecodeParams& p) {
  constexpr int WARPS = BLOCK_KV / MMA_ROWS;
  constexpr int TILE = BLOCK_KV * HEAD_DIM;
  constexpr int PENDING = 2 * STAGES - 1;  // copy groups younger than the one that is waited for
  static_assert(WARPS * 32 == SPARK_BLOCK, "one warp per 16 rows of a tile");
  static_assert(2 * STAGES * TILE * sizeof(T) == SPARK_DYNAMIC_SMEM, "flags.yaml and the kernel disagree on smem");
  static_assert(8 * sizeof(float) == MMA_ROWS * sizeof(T), "eight rows of a warp's O take the place of its rows of K");

  DYNAMIC_SHARED(T, kv_smem);
  SHARED_ARRAY(float, max_smem, ROWS* WARPS);
  SHARED_ARRAY(float, sum_smem, ROWS* WARPS);
  SHARED_ARRAY(const uint8_t*, mask_smem, MMA_ROWS);

  const QueryBlock block = query_block(blockIdx.x, ceil_div(p.group * p.qo_len, ROWS), ROWS);
  const int kv_head = block.kv_head;
  const int first_row = block.first_row;
  const int split = blockIdx.y;
  const int batch = blockIdx.z;
  const Rows rows(p, batch);
  const auto range_of = [&](int kv_len) {
    return split_range(visible_range(p, p.qo_len, kv_len), split, p.num_splits, BLOCK_KV);
  };
  if constexpr (!Rows::CONTIGUOUS) {
    const KvRange longest = range_of(p.kv_len);  // a guess, right where all sequences are as long as they can be
    rows.prefetch(longest.begin, longest.end);
  }
  if (p.kv_lens != nullptr) ptx::griddepcontrol_wait();  // the kernel ahead may write them
  const int kv_len = sequence_kv_len(p, batch);
  const KvRange range = range_of(kv_len);
  const int num_tiles = ceil_div(range.end - range.begin, BLOCK_KV);
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
      copy_rows_async<T, HEAD_DIM, MMA_ROWS, Rows, true>(tile_smem + tile % STAGES * TILE, base_gmem, stride, mine,
                                                         first_key(tile), range.end);
    }
    ptx::cp_async_commit_group();  // empty past the last tile, so that groups keep counting tiles
  };

  ptx::griddepcontrol_wait();               // from here on memory is read that the kernel ahead may have written
  ptx::griddepcontrol_launch_dependents();  // the merge may take its place on the SMs: it waits for the partials itself

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

  // behind the copies: whose rows these are takes divisions where qo_len is more than 1
  constexpr int HALVES = ROWS / 8;
  QueryRow query_rows[HALVES];
#pragma unroll
  for (int half = 0; half < HALVES; ++half) {
    query_rows[half] = query_row(p, kv_head, first_row + lane_id() / 4 + 8 * half, kv_len);
  }

  // rows of the mask wait in shared memory: as registers they would cost every call without a mask
  if (p.mask != nullptr) {
    const QueryRow row = query_row(p, kv_head, first_row + threadIdx.x % MMA_ROWS, kv_len);
    if (threadIdx.x < MMA_ROWS) mask_smem[threadIdx.x] = mask_row(p, batch, row.head, row.position);
    __syncthreads();  // the rows are written
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

  const auto fragment = [&](uint32_t (&frag)[4], int k) { query.fragment(frag, k); };
  const auto keys_of = [&](int, int half) { return half < HALVES ? query_rows[half % HALVES].keys : KvRange{0, 0}; };
  const auto mask_of = [&](int, int half) { return mask_smem[lane_id() / 4 + 8 * half]; };

  // of K as of V: ldmatrix takes 16 keys and two chunks
  const SwizzledRow<HEAD_DIM> tile_rows(lane_id() % 8 + 8 * (lane_id() / 16), lane_id() / 8 % 2);
  DecodeState<HEAD_DIM, ROWS> state;
  clear_state(state);
  for (int tile = 0; tile < num_tiles; ++tile) {
    const int stage_offset = tile % STAGES * TILE;
    const typename Rows::Index current = ahead;  // of tile + STAGES, looked up one tile ago
    ahead = look_up(tile + STAGES + 1);
    float score[1][2][4];

    ptx::cp_async_wait_group<PENDING>();
    __syncwarp();  // K of this tile, as copied by all lanes, is visible
    multiply_qk_16_keys<T, HEAD_DIM>(score, fragment, k_smem + stage_offset, tile_rows);
    __syncwarp();  // all lanes have read K before its stage is refilled
    copy_tile(k_smem, k_gmem, p.k_stride, tile + STAGES, current);

    cap_scores(score, p);
    hide_scores(score, p, first_key(tile), keys_of, mask_of);
    update_softmax(state, score, p.scale_log2);

    ptx::cp_async_wait_group<PENDING>();
    __syncwarp();  // V of this tile is visible
    multiply_pv<T, HEAD_DIM>(state, score, v_smem + stage_offset, tile_rows);
    __syncwarp();  // all lanes have read V before its stage is refilled
    copy_tile(v_smem, v_gmem, p.v_stride, tile + STAGES, current);
  }
  // No copy is under way, the groups behind the last tile being empty, and every lane has read its rows of the last
  // tile: the warp's rows of stage 0 now hold its state, eight rows of O where sixteen of K were, eight where V was.
  float* acc_smem[2] = {reinterpret_cast<float*>(kv_smem), reinterpret_cast<float*>(kv_smem + STAGES * TILE)};
  publish_state<HEAD_DIM, WARPS>(state, p.group * p.qo_len - first_row, acc_smem, max_smem, sum_smem);
  __syncthreads();  // all states are written
  store_partials<HEAD_DIM, WARPS, ROWS>(p, batch, kv_head, first_row, split, acc_smem, max_smem, sum_smem);
}

}  // namespace spark
