// Prefill on tensor cores, over contiguous, packed or paged K and V.
//
// grid: [query tiles of the longest sequence, num_kv_heads, batch]; one CTA computes BLOCK_Q packed query rows
// (positions times the group's heads) of one kv head, each of its 4 warps 16 * M of them. K and V tiles of BLOCK_KV
// keys go through two stages: the copy of tile i + 1 is under way while tile i is computed, with one CTA barrier a
// tile. Tiles that no row of the CTA sees are not loaded, a warp skips those that none of its rows sees, and only tiles
// that some row sees in part are masked.
#pragma once

#include "attention/kv_rows.cuh"
#include "attention/mma_tile.cuh"
#include "common/memory.h"
#include "prefill/query_tile.cuh"

namespace spark {

// The tile of a head_dim. 32 rows a warp halve the shared memory traffic of 16, as K and V fragments serve two products
// each; their accumulators fit the registers up to head_dim 128. flags.yaml has the same sizes in its smem formula.
template <int HEAD_DIM>
struct PrefillTile {
  static constexpr int WARPS = 4;
  static constexpr int M = HEAD_DIM <= 128 ? 2 : 1;
  static constexpr int WARP_ROWS = MMA_ROWS * M;
  static constexpr int BLOCK_Q = WARPS * WARP_ROWS;
  static constexpr int BLOCK_KV = HEAD_DIM <= 64 ? 64 : 32;
  static constexpr int COPY_ROWS = BLOCK_KV / WARPS;  // of K and of V, by each warp
  static constexpr int SMEM_ELEMENTS = (BLOCK_Q + 4 * BLOCK_KV) * HEAD_DIM;
};

// Rows of q or out, one offset a lane.
struct WarpRows {
  int64_t offset;  // elements, of row `lane` of the warp
  int count;       // rows that are no padding; 0 or less where all are

  SPARK_DEVICE int64_t offset_of(int row) const { return __shfl_sync(kFullMask, offset, row); }
};

SPARK_DEVICE WarpRows warp_rows(const PrefillParams& p, const TensorStrides& stride, const Sequence& seq, int kv_head,
                                int warp_row) {
  const QueryRow row = query_row(p, kv_head, warp_row + lane_id(), seq.qo_len, seq.kv_len);
  return {row_offset(stride, seq, row), p.group * seq.qo_len - warp_row};
}

// global -> shared: this warp's query rows; rows of padding are zero.
template <typename T, int HEAD_DIM>
SPARK_DEVICE void copy_query_async(T* q_smem, const PrefillParams& p, const Sequence& seq, int kv_head, int warp_row) {
  constexpr int CHUNKS = HEAD_DIM / 8;
  const WarpRows rows = warp_rows(p, p.q_stride, seq, kv_head, warp_row);
#pragma unroll
  for (int i = 0; i < PrefillTile<HEAD_DIM>::WARP_ROWS * CHUNKS / 32; ++i) {
    const int row = (lane_id() + 32 * i) / CHUNKS;
    const int chunk = (lane_id() + 32 * i) % CHUNKS;
    const T* source = static_cast<const T*>(p.q) + rows.offset_of(row) + chunk * 8;
    ptx::cp_async_cg_16(q_smem + swizzled_offset<HEAD_DIM>(row, chunk), source, row < rows.count);
  }
}

// This warp's rows against the tile whose first key is `kv`, V behind K. A PLAIN tile has no score to hide or to cap,
// and scores that grow with q . k: the scale becomes part of the exponential. Two bodies, as one that changes some
// scores on the way holds them twice.
template <typename T, int HEAD_DIM, bool PLAIN, int M, typename Query, typename KeysOf, typename MaskOf>
SPARK_DEVICE void attend_tile(MmaState<HEAD_DIM, M>& state, const PrefillParams& p, const Query& query,
                              const KeysOf& keys_of, const MaskOf& mask_of, const T* k_smem, int kv) {
  constexpr int BLOCK_KV = PrefillTile<HEAD_DIM>::BLOCK_KV;
  float score[M][BLOCK_KV / 8][4];
  multiply_qk<T, HEAD_DIM>(score, query, k_smem);
  if constexpr (!PLAIN) {
    cap_scores(score, p);
    scale_scores(score, p.scale_log2);
    hide_scores(score, p, kv, keys_of, mask_of);
  }
  update_softmax(state, score, PLAIN ? p.scale_log2 : 1.0f);
  multiply_pv<T, HEAD_DIM>(state, score, k_smem + BLOCK_KV * HEAD_DIM);
}

// The state -> out and lse of this warp's rows, by way of shared memory, so that rows leave in 16-byte vectors.
template <typename T, int HEAD_DIM, int M>
SPARK_DEVICE void store_rows(MmaState<HEAD_DIM, M>& state, T* out_smem, const PrefillParams& p, const Sequence& seq,
                             int kv_head, int warp_row) {
  constexpr int CHUNKS = HEAD_DIM / 8;
  const int lane = lane_id();
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = m * MMA_ROWS + lane / 4 + 8 * half;
      const QueryRow row = query_row(p, kv_head, warp_row + r, seq.qo_len, seq.kv_len);
      const FinishedRow finished = finish_row(p, {state.max[m][half], quad_sum(state.sum[m][half])}, row.head);
      if (row.valid && lane % 4 == 0) store_lse(p, seq, row, finished.lse);
#pragma unroll
      for (int n = 0; n < HEAD_DIM / 8; ++n) {
        *reinterpret_cast<uint32_t*>(out_smem + swizzled_offset<HEAD_DIM>(r, n) + (lane % 4) * 2) =
            pack2<T>(state.acc[m][n][2 * half] * finished.scale, state.acc[m][n][2 * half + 1] * finished.scale);
      }
    }
  }
  __syncwarp();  // the warp's rows are written
  const WarpRows rows = warp_rows(p, p.out_stride, seq, kv_head, warp_row);
#pragma unroll 4
  for (int i = 0; i < MMA_ROWS * M * CHUNKS / 32; ++i) {
    const int row = (lane + 32 * i) / CHUNKS;
    const int chunk = (lane + 32 * i) % CHUNKS;
    T* target = static_cast<T*>(p.out) + rows.offset_of(row) + chunk * 8;
    const Vec16 vector = *reinterpret_cast<const Vec16*>(out_smem + swizzled_offset<HEAD_DIM>(row, chunk));
    if (row < rows.count) *reinterpret_cast<Vec16*>(target) = vector;
  }
}

template <typename T, int HEAD_DIM, typename Rows>
__global__ void __launch_bounds__(SPARK_BLOCK, SPARK_MIN_BLOCKS)
    attn_prefill_split_q_mma_kernel(const __grid_constant__ PrefillParams p) {
  using Tile = PrefillTile<HEAD_DIM>;
  constexpr int BLOCK_KV = Tile::BLOCK_KV;
  constexpr int KV_TILE = BLOCK_KV * HEAD_DIM;
  static_assert(Tile::WARPS * 32 == SPARK_BLOCK, "one warp per WARP_ROWS rows");
  static_assert(Tile::SMEM_ELEMENTS * sizeof(T) == SPARK_DYNAMIC_SMEM, "flags.yaml and the kernel disagree on smem");
  DYNAMIC_SHARED(T, smem);
  SHARED_ARRAY(KvRange, keys_smem, Tile::BLOCK_Q);         // what each row sees, before a mask
  SHARED_ARRAY(const uint8_t*, mask_smem, Tile::BLOCK_Q);  // each row's mask
  SHARED_ARRAY(RowsView, view_smem, Tile::WARPS);          // what the rows of each warp see

  const int kv_head = blockIdx.y;
  const Sequence seq = sequence_of(p, blockIdx.z);
  const int first_row = first_row_of_block(p, seq, Tile::BLOCK_Q);
  if (first_row < 0) return;  // the whole CTA
  const int warp_row = first_row + warp_id() * Tile::WARP_ROWS;
  const KvRange range = rows_view(p, seq, first_row, Tile::BLOCK_Q).some;
  const int num_tiles = ceil_div(range.end - range.begin, BLOCK_KV);

  const Rows rows(p, seq.batch);
  const T* k_gmem = rows.template head_base<T>(p.k, p.k_stride, kv_head);
  const T* v_gmem = rows.template head_base<T>(p.v, p.v_stride, kv_head);
  T* q_smem = smem + warp_id() * Tile::WARP_ROWS * HEAD_DIM;
  T* kv_smem = smem + Tile::BLOCK_Q * HEAD_DIM;  // [2 stages, K and V, BLOCK_KV, HEAD_DIM]
  const int copy_row = warp_id() * Tile::COPY_ROWS;
  const auto look_up = [&](int tile) {
    return rows.look_up(range.begin + tile * BLOCK_KV + copy_row + lane_id() % Tile::COPY_ROWS, range.end);
  };
  const auto copy_tile = [&](int tile, typename Rows::Index mine) {
    if (tile < num_tiles) {
      const int kv = range.begin + tile * BLOCK_KV + copy_row;
      T* k_smem = kv_smem + tile % 2 * 2 * KV_TILE + copy_row * HEAD_DIM;
      copy_rows_async<T, HEAD_DIM, Tile::COPY_ROWS, Rows>(k_smem, k_gmem, p.k_stride, mine, kv, range.end);
      copy_rows_async<T, HEAD_DIM, Tile::COPY_ROWS, Rows>(k_smem + KV_TILE, v_gmem, p.v_stride, mine, kv, range.end);
    }
    ptx::cp_async_commit_group();
  };

  // every warp fills in and reads its own rows
  KvRange* warp_keys = keys_smem + warp_id() * Tile::WARP_ROWS;
  const uint8_t** warp_mask = mask_smem + warp_id() * Tile::WARP_ROWS;
  if (lane_id() == 0) view_smem[warp_id()] = rows_view(p, seq, warp_row, Tile::WARP_ROWS);
  if (lane_id() < Tile::WARP_ROWS) {
    const QueryRow row = query_row(p, kv_head, warp_row + lane_id(), seq.qo_len, seq.kv_len);
    warp_keys[lane_id()] = row.keys;
    warp_mask[lane_id()] = mask_row(p, seq.batch, row.head, row.position);
  }

  // global -> shared (Q, tile 0)
  typename Rows::Index ahead = look_up(0);
  copy_query_async<T, HEAD_DIM>(q_smem, p, seq, kv_head, warp_row);
  copy_tile(0, ahead);
  ahead = look_up(1);

  const SwizzledRow<HEAD_DIM> q_row(lane_id() % 16, lane_id() / 16);
  const auto query = [&](uint32_t (&frag)[4], int m, int k) {
    ptx::ldmatrix_x4(frag, q_row.at(q_smem, 2 * k) + m * MMA_ROWS * HEAD_DIM);
  };
  const auto keys_of = [&](int m, int half) { return warp_keys[m * MMA_ROWS + lane_id() / 4 + 8 * half]; };
  const auto mask_of = [&](int m, int half) { return warp_mask[m * MMA_ROWS + lane_id() / 4 + 8 * half]; };
  const bool plain_scores = p.mask == nullptr && p.softcap == 0.0f && p.scale_log2 > 0.0f;
  MmaState<HEAD_DIM, Tile::M> state;
  clear_state(state);
  for (int tile = 0; tile < num_tiles; ++tile) {
    const typename Rows::Index current = ahead;  // of tile + 1, looked up one tile ago
    ahead = look_up(tile + 2);
    ptx::cp_async_wait_group<0>();
    __syncthreads();  // the tile (and Q) is visible to all, and all have read the one that is overwritten next
    copy_tile(tile + 1, current);

    const int kv = range.begin + tile * BLOCK_KV;
    const RowsView view = view_smem[warp_id()];
    const T* k_smem = kv_smem + tile % 2 * 2 * KV_TILE;
    if (kv >= view.some.end || kv + BLOCK_KV <= view.some.begin) continue;  // no row of this warp sees the tile
    if (plain_scores && kv >= view.all.begin && kv + BLOCK_KV <= view.all.end) {
      attend_tile<T, HEAD_DIM, true>(state, p, query, keys_of, mask_of, k_smem, kv);
    } else {
      attend_tile<T, HEAD_DIM, false>(state, p, query, keys_of, mask_of, k_smem, kv);
    }
  }
  ptx::cp_async_wait_group<0>();
  __syncwarp();  // the warp has read its rows of Q: their memory now takes the output
  store_rows<T, HEAD_DIM, Tile::M>(state, q_smem, p, seq, kv_head, warp_row);
}

}  // namespace spark
