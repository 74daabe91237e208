// One warp's share of decode on tensor cores: ROWS packed query rows against 16 keys of a tile.
//
// S = Q K^T has the queries along M, as in mma_tile.cuh. O is kept transposed, O^T = V^T P^T, the queries along N:
// eight rows then cost half of the products and half of the accumulators that sixteen do, and the score fragments are
// the B fragments of P^T as they lie.
#pragma once

#include "attention/mma_tile.cuh"

namespace spark {

// What one warp carries through the keys. Of 16 dims and 8 queries a thread holds in acc[m][half][i] dim
// 16 * m + lane / 4 + 8 * (i / 2) and query 8 * half + 2 * (lane % 4) + i % 2.
template <int HEAD_DIM, int ROWS>
struct DecodeState {
  static constexpr int HALVES = ROWS / 8;
  float acc[HEAD_DIM / 16][HALVES][4];
  float max[HALVES];  // of query 8 * half + lane / 4, log2 domain
  float sum[HALVES];  // of the same query, this thread's keys only, until the end
};

template <int HEAD_DIM, int ROWS>
SPARK_DEVICE void clear_state(DecodeState<HEAD_DIM, ROWS>& state) {
  state = {};
#pragma unroll
  for (int half = 0; half < ROWS / 8; ++half) state.max[half] = kNegInf;
}

// S = Q K^T  [16, 16] in two chains of products for each 8 keys, since a warp has nothing else to do meanwhile.
// `query(frag, k)` gives the A fragment of the k-th 16 dims.
template <typename T, int HEAD_DIM, typename Query>
SPARK_DEVICE void multiply_qk_16_keys(float (&score)[1][2][4], const Query& query, const T* k_smem,
                                      const SwizzledRow<HEAD_DIM>& rows) {
  float other[2][4];
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) score[0][n][i] = other[n][i] = 0.0f;
  }
#pragma unroll
  for (int k = 0; k < HEAD_DIM / 16; ++k) {
    uint32_t q_frag[4];
    query(q_frag, k);
    uint32_t k_frag[4];  // keys 0-7: registers 0 and 1; keys 8-15: registers 2 and 3
    ptx::ldmatrix_x4(k_frag, rows.at(k_smem, 2 * k));
    const uint32_t low[2] = {k_frag[0], k_frag[1]};
    const uint32_t high[2] = {k_frag[2], k_frag[3]};
    float (&first)[4] = k % 2 == 0 ? score[0][0] : other[0];
    float (&second)[4] = k % 2 == 0 ? score[0][1] : other[1];
    ptx::mma_m16n8k16<T>(first, q_frag, low, first);
    ptx::mma_m16n8k16<T>(second, q_frag, high, second);
  }
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) score[0][n][i] += other[n][i];
  }
}

// Scores -> weights, and the state under the new maximum. `scale` is what is left to multiply scores with (more than
// 0): as part of the exponential it costs nothing.
template <int HEAD_DIM, int ROWS>
SPARK_DEVICE void update_softmax(DecodeState<HEAD_DIM, ROWS>& state, float (&score)[1][2][4], float scale) {
  constexpr int HALVES = ROWS / 8;
  float factor[HALVES];
  bool moved = false;
#pragma unroll
  for (int half = 0; half < HALVES; ++half) {
    const float (&low)[4] = score[0][0];
    const float (&high)[4] = score[0][1];
    const float own = fmaxf(fmaxf(low[2 * half], low[2 * half + 1]), fmaxf(high[2 * half], high[2 * half + 1]));
    const float max = fmaxf(state.max[half], quad_max(own) * scale);
    factor[half] = rescale_factor(state.max[half], max);
    moved = moved || factor[half] != 1.0f;
    const float shift = softmax_shift(max);
    float sum = state.sum[half] * factor[half];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float& s = score[0][n][2 * half + j];
        s = exp2_fast(s * scale - shift);
        sum += s;
      }
    }
    state.max[half] = max;
    state.sum[half] = sum;
  }
  // Multiplying by 1 changes nothing: skip it while no maximum of the warp moved.
  if (__any_sync(kFullMask, moved)) {
    const int first = (lane_id() % 4) * 8;  // the lane that holds the factor of query 2 * (lane % 4)
#pragma unroll
    for (int half = 0; half < HALVES; ++half) {
      const float even = __shfl_sync(kFullMask, factor[half], first);
      const float odd = __shfl_sync(kFullMask, factor[half], first + 4);
#pragma unroll
      for (int m = 0; m < HEAD_DIM / 16; ++m) {
        state.acc[m][half][0] *= even;
        state.acc[m][half][1] *= odd;
        state.acc[m][half][2] *= even;
        state.acc[m][half][3] *= odd;
      }
    }
  }
}

// O^T += V^T P^T  [HEAD_DIM, ROWS]
template <typename T, int HEAD_DIM, int ROWS>
SPARK_DEVICE void multiply_pv(DecodeState<HEAD_DIM, ROWS>& state, const float (&weight)[1][2][4], const T* v_smem,
                              const SwizzledRow<HEAD_DIM>& rows) {
  constexpr int HALVES = ROWS / 8;
  uint32_t p_frag[HALVES][2];
#pragma unroll
  for (int half = 0; half < HALVES; ++half) {
    p_frag[half][0] = pack2<T>(weight[0][0][2 * half], weight[0][0][2 * half + 1]);
    p_frag[half][1] = pack2<T>(weight[0][1][2 * half], weight[0][1][2 * half + 1]);
  }
#pragma unroll
  for (int m = 0; m < HEAD_DIM / 16; ++m) {
    uint32_t v_frag[4];  // the A fragment of V^T: dims along M, keys along K
    ptx::ldmatrix_x4_trans(v_frag, rows.at(v_smem, 2 * m));
#pragma unroll
    for (int half = 0; half < HALVES; ++half) {
      ptx::mma_m16n8k16<T>(state.acc[m][half], v_frag, p_frag[half], state.acc[m][half]);
    }
  }
}

// Element offset of (row, dim) in an [8, HEAD_DIM] tile of fp32: what publish_state stores at once, four pairs of rows
// and eight dims, falls in 32 banks; runs of eight dims stay together.
template <int HEAD_DIM>
SPARK_HOST_DEVICE int state_offset(int row, int dim) {
  static_assert(HEAD_DIM % 32 == 0, "eight-dim runs are permuted within 32 dims");
  return row * HEAD_DIM + (dim ^ ((row / 2 & 3) << 3));
}

// Puts this warp's state of the first `count` rows where all threads can read it: rows [8 * half, 8 * half + 8) in
// acc_smem[half] [WARPS, 8, HEAD_DIM], max and sum [ROWS, WARPS].
template <int HEAD_DIM, int WARPS, int ROWS>
SPARK_DEVICE void publish_state(const DecodeState<HEAD_DIM, ROWS>& state, int count, float* const (&acc_smem)[2],
                                float* max_smem, float* sum_smem) {
  const int lane = lane_id();
#pragma unroll
  for (int half = 0; half < ROWS / 8; ++half) {
    const float sum = quad_sum(state.sum[half]);
    if (lane % 4 == 0) {
      max_smem[(8 * half + lane / 4) * WARPS + warp_id()] = state.max[half];
      sum_smem[(8 * half + lane / 4) * WARPS + warp_id()] = sum;
    }
    const int row = lane % 4 * 2;
    if (8 * half + row >= count) continue;
    // dims lane / 4 + 8 * i of 32: state_offset of the others is a constant further on
    float* first[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      first[i] = acc_smem[half] + warp_id() * 8 * HEAD_DIM + state_offset<HEAD_DIM>(row, lane / 4 + 8 * i);
    }
#pragma unroll
    for (int m = 0; m < HEAD_DIM / 16; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        first[2 * m % 4 + i / 2][m / 2 * 32 + i % 2 * HEAD_DIM] = state.acc[m][half][i];
      }
    }
  }
}

}  // namespace spark
