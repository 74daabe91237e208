// Split-KV decode on CUDA cores, for every arch, over contiguous or paged K and V.
//
// grid: [num_kv_heads * passes, num_splits, batch]; one CTA reduces the keys [begin, end) of its split for 8 packed
// query rows (the group's heads times qo_len) of one kv head, one warp a row; passes = ceil(group * qo_len / 8). A tile
// of 32 keys is staged once for the 8 rows. For Q K^T a lane owns a key, for P V it owns head_dim / 32 dims.
#pragma once

#include "attention/geometry.h"
#include "attention/kv_rows.cuh"
#include "attention/scores.cuh"
#include "attention/softmax.cuh"
#include "common/memory.h"
#include "common/types.h"
#include "common/warp.h"
#include "ptx/griddepcontrol.h"

namespace spark {

constexpr int SCALAR_ROWS = 8;   // query rows, and warps, of a CTA
constexpr int SCALAR_TILE = 32;  // keys of a tile: one per lane
constexpr int SCALAR_CHUNK = 8;  // elements of a 16-byte vector
constexpr int SCALAR_PAD = 8;    // elements after each row: lanes on neighbouring rows read different banks

// global -> shared: keys [kv, kv + 32) of K or V; keys at or past `kv_end` are zero and not read.
// Lane l of every warp has looked up the row of key kv + l.
template <typename T, int HEAD_DIM, typename Rows>
SPARK_DEVICE void load_tile(T* tile_smem, const T* base_gmem, const TensorStrides& stride, typename Rows::Index mine,
                            int kv, int kv_end) {
  constexpr int CHUNKS = HEAD_DIM / SCALAR_CHUNK;
  for (int index = threadIdx.x; index < SCALAR_TILE * CHUNKS; index += SCALAR_ROWS * 32) {
    const int row = index / CHUNKS;
    const int col = index % CHUNKS * SCALAR_CHUNK;
    Vec16 vector = {};
    const T* row_gmem = Rows::row(base_gmem, stride, Rows::from_lane(mine, kv, row));
    if (kv + row < kv_end) vector = *reinterpret_cast<const Vec16*>(row_gmem + col);
    *reinterpret_cast<Vec16*>(tile_smem + row * (HEAD_DIM + SCALAR_PAD) + col) = vector;
  }
}

// q . k of this lane's key.
template <typename T, int HEAD_DIM>
SPARK_DEVICE float dot_qk(const float* q_smem, const T* key_smem) {
  float dot = 0.0f;
#pragma unroll
  for (int d = 0; d < HEAD_DIM; d += SCALAR_CHUNK) {
    const Vec16 vector = *reinterpret_cast<const Vec16*>(key_smem + d);
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const float2 pair = unpack2<T>(vector.word[w]);
      dot = fmaf(q_smem[d + 2 * w], pair.x, dot);
      dot = fmaf(q_smem[d + 2 * w + 1], pair.y, dot);
    }
  }
  return dot;
}

// acc += P V over the tile; lane l owns dims l, l + 32, ...
template <typename T, int HEAD_DIM>
SPARK_DEVICE void accumulate_pv(float (&acc)[HEAD_DIM / 32], const float* weight_smem, const T* v_smem) {
#pragma unroll 4
  for (int j = 0; j < SCALAR_TILE; ++j) {
    const float weight = weight_smem[j];
#pragma unroll
    for (int i = 0; i < HEAD_DIM / 32; ++i) {
      acc[i] = fmaf(weight, to_float(v_smem[j * (HEAD_DIM + SCALAR_PAD) + lane_id() + 32 * i]), acc[i]);
    }
  }
}

// The whole reduction of one CTA.
template <typename T, int HEAD_DIM, typename Rows>
SPARK_DEVICE void reduce_split_kv(const DecodeParams& p) {
  static_assert(SCALAR_ROWS * 32 == SPARK_BLOCK, "one warp per query row");
  static_assert(SPARK_DYNAMIC_SMEM == 0, "all shared memory is static");
  constexpr int ROW = HEAD_DIM + SCALAR_PAD;

  SHARED_ARRAY(T, k_smem, SCALAR_TILE * ROW);
  SHARED_ARRAY(T, v_smem, SCALAR_TILE * ROW);
  SHARED_ARRAY(float, q_smem, SCALAR_ROWS* HEAD_DIM);
  SHARED_ARRAY(float, weight_smem, SCALAR_ROWS* SCALAR_TILE);

  ptx::griddepcontrol_wait();               // the kernel ahead may have written what is read here
  ptx::griddepcontrol_launch_dependents();  // the merge may take its place on the SMs: it waits for the partials itself

  const QueryBlock block = query_block(blockIdx.x, ceil_div(p.group * p.qo_len, SCALAR_ROWS), SCALAR_ROWS);
  const int kv_head = block.kv_head;
  const int split = blockIdx.y;
  const int batch = blockIdx.z;
  const int lane = lane_id();
  const int kv_len = sequence_kv_len(p, batch);
  const KvRange range = split_range(visible_range(p, p.qo_len, kv_len), split, p.num_splits, SCALAR_TILE);
  const QueryRow row = query_row(p, kv_head, block.first_row + warp_id(), kv_len);

  float* q_row = q_smem + warp_id() * HEAD_DIM;
  float* weight_row = weight_smem + warp_id() * SCALAR_TILE;
  const T* q_gmem = static_cast<const T*>(p.q) + element_offset(p.q_stride, batch, row.position, row.head);
  const Rows rows(p, batch);
  const T* k_gmem = rows.template head_base<T>(p.k, p.k_stride, kv_head);
  const T* v_gmem = rows.template head_base<T>(p.v, p.v_stride, kv_head);
  const uint8_t* mask = mask_row(p, batch, row.head, row.position);
  for (int d = lane; d < HEAD_DIM; d += 32) q_row[d] = row.valid ? to_float(q_gmem[d]) : 0.0f;
  // q_row is read by its own warp alone, behind the first barrier of the loop

  float acc[HEAD_DIM / 32] = {};
  float max = kNegInf;
  float sum = 0.0f;  // of this lane's keys, until the end
  typename Rows::Index ahead = rows.look_up(range.begin + lane, range.end);
  for (int kv = range.begin; kv < range.end; kv += SCALAR_TILE) {
    const typename Rows::Index current = ahead;
    ahead = rows.look_up(kv + SCALAR_TILE + lane, range.end);
    load_tile<T, HEAD_DIM, Rows>(k_smem, k_gmem, p.k_stride, current, kv, range.end);
    load_tile<T, HEAD_DIM, Rows>(v_smem, v_gmem, p.v_stride, current, kv, range.end);
    __syncthreads();  // the tile is written

    const float dot = dot_qk<T, HEAD_DIM>(q_row, k_smem + lane * ROW);
    const float score = key_visible(row.keys, mask, kv + lane) ? score_log2(p, dot) : kNegInf;
    const float new_max = fmaxf(max, warp_max(score));
    const float factor = rescale_factor(max, new_max);
    const float weight = exp2_fast(score - softmax_shift(new_max));
    max = new_max;
    sum = sum * factor + weight;
    weight_row[lane] = weight;
#pragma unroll
    for (int i = 0; i < HEAD_DIM / 32; ++i) acc[i] *= factor;
    __syncwarp();  // the row's weights are written
    accumulate_pv<T, HEAD_DIM>(acc, weight_row, v_smem);
    __syncthreads();  // all warps have read the tile before the next one overwrites it
  }
  sum = warp_sum(sum);
  if (!row.valid) return;
  const int64_t partial = partial_index(batch, p.qo_len, row.position, p.num_qo_heads, row.head, p.num_splits, split);
#pragma unroll
  for (int i = 0; i < HEAD_DIM / 32; ++i) p.partials.acc[partial * HEAD_DIM + lane + 32 * i] = acc[i];
  if (lane == 0) {
    p.partials.max[partial] = max;
    p.partials.sum[partial] = sum;
  }
}

}  // namespace spark
