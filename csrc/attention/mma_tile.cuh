// One warp's share of attention on tensor cores: 16 * M query rows against the keys of a tile, with m16n8k16.
//
// A thread holds rows `lane / 4` and `lane / 4 + 8` of each 16 rows, and columns 2 * (lane % 4) and one more of each 8
// keys or dims: score[m][n][i] is row lane / 4 + 8 * (i / 2) of the m-th 16 rows, key 8 * n + 2 * (lane % 4) + i % 2.
#pragma once

#include "attention/geometry.h"
#include "attention/scores.cuh"
#include "attention/softmax.cuh"
#include "attention/swizzle.h"
#include "common/types.h"
#include "common/warp.h"
#include "ptx/cp_async.h"
#include "ptx/ldmatrix.h"
#include "ptx/mma.h"

namespace spark {

constexpr int MMA_ROWS = 16;  // query rows of one m16n8k16, and keys of one step of P V

// What one warp carries through the keys.
template <int HEAD_DIM, int M>
struct MmaState {
  float acc[M][HEAD_DIM / 8][4];  // [16 * M, HEAD_DIM] in m16n8 fragments
  float max[M][2];                // log2 domain
  float sum[M][2];                // of this thread's columns only, until the end
};

template <int HEAD_DIM, int M>
SPARK_DEVICE void clear_state(MmaState<HEAD_DIM, M>& state) {
  state = {};
#pragma unroll
  for (int m = 0; m < M; ++m) state.max[m][0] = state.max[m][1] = kNegInf;
}

// global -> shared: ROWS rows from key `kv` on, by one warp; rows at or past `kv_end` are filled with zeros and not
// read. Lane l has looked up the row of key kv + l % ROWS. READ_ONCE: no one else needs them soon.
template <typename T, int HEAD_DIM, int ROWS, typename Rows, bool READ_ONCE = false>
SPARK_DEVICE void copy_rows_async(T* rows_smem, const T* base_gmem, const TensorStrides& stride,
                                  typename Rows::Index mine, int kv, int kv_end) {
  constexpr int CHUNKS = HEAD_DIM / 8;
  static_assert(ROWS <= 32 && ROWS * CHUNKS % 32 == 0, "every lane copies the same number of chunks");
  const auto copy = [](T* target, const T* source, bool valid) {
    if constexpr (READ_ONCE) {
      ptx::cp_async_cg_16_evict_first(target, source, valid);
    } else {
      ptx::cp_async_cg_16(target, source, valid);
    }
  };
  if constexpr (32 % CHUNKS == 0) {
    // a lane stays in its column of chunks, and the rows that it copies have keys without a common bit
    constexpr int STEP = 32 / CHUNKS;
    const int chunk = lane_id() % CHUNKS;
    const int first = lane_id() / CHUNKS;
    T* first_smem = rows_smem + first * HEAD_DIM;
    const int moved = chunk ^ swizzle_key<HEAD_DIM>(first);
    const T* source = nullptr;
    int64_t offset = 0;  // of the row that this lane has looked up
    if constexpr (Rows::CONTIGUOUS) {
      source = Rows::row(base_gmem, stride, Rows::from_lane(mine, kv, first)) + chunk * 8;
    } else {
      offset = Rows::offset(stride, mine);
    }
#pragma unroll
    for (int i = 0; i < ROWS / STEP; ++i) {
      const int row = first + i * STEP;
      if constexpr (!Rows::CONTIGUOUS) {
        source = base_gmem + __shfl_sync(kFullMask, offset, row) + chunk * 8;
      }
      T* target = first_smem + (moved ^ swizzle_key<HEAD_DIM>(i * STEP)) * 8;
      copy(target + i * STEP * HEAD_DIM, source, kv + row < kv_end);
      // contiguous: one pointer walks down the rows, 2 to 3 % at batch 1 against addresses formed anew; H200,
      // docs/kernels/decode.md
      if constexpr (Rows::CONTIGUOUS) source += STEP * stride.len;
    }
  } else {
#pragma unroll
    for (int i = 0; i < ROWS * CHUNKS / 32; ++i) {
      const int index = lane_id() + 32 * i;
      const int row = index / CHUNKS;
      const int chunk = index % CHUNKS;
      const T* row_gmem = Rows::row(base_gmem, stride, Rows::from_lane(mine, kv, row));
      copy(rows_smem + swizzled_offset<HEAD_DIM>(row, chunk), row_gmem + chunk * 8, kv + row < kv_end);
    }
  }
}

// S = Q K^T  [16 * M, 8 * N]. `query(frag, m, k)` gives the A fragment of the m-th 16 rows and the k-th 16 dims.
template <typename T, int HEAD_DIM, int M, int N, typename Query>
SPARK_DEVICE void multiply_qk(float (&score)[M][N][4], const Query& query, const T* k_smem) {
  static_assert(N % 2 == 0, "ldmatrix.x4 holds 16 keys");
  const int lane = lane_id();
  const SwizzledRow<HEAD_DIM> k_row(lane % 8 + 8 * (lane / 16), lane / 8 % 2);
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) score[m][n][i] = 0.0f;
    }
  }
#pragma unroll
  for (int k = 0; k < HEAD_DIM / 16; ++k) {
    uint32_t q_frag[M][4];
#pragma unroll
    for (int m = 0; m < M; ++m) query(q_frag[m], m, k);
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      uint32_t k_frag[4];  // keys 0-7: registers 0 and 1; keys 8-15: registers 2 and 3
      ptx::ldmatrix_x4(k_frag, k_row.at(k_smem, 2 * k) + 8 * n * HEAD_DIM);
      const uint32_t low[2] = {k_frag[0], k_frag[1]};
      const uint32_t high[2] = {k_frag[2], k_frag[3]};
#pragma unroll
      for (int m = 0; m < M; ++m) {
        ptx::mma_m16n8k16<T>(score[m][n], q_frag[m], low, score[m][n]);
        ptx::mma_m16n8k16<T>(score[m][n + 1], q_frag[m], high, score[m][n + 1]);
      }
    }
  }
}

// Raw q . k -> raw soft-capped q . k, where a soft-cap is on.
template <int M, int N>
SPARK_DEVICE void cap_scores(float (&score)[M][N][4], const AttentionParams& p) {
  if (p.softcap == 0.0f) return;
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) score[m][n][i] = soft_cap(p, score[m][n][i]);
    }
  }
}

template <int M, int N>
SPARK_DEVICE void scale_scores(float (&score)[M][N][4], float scale) {
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) score[m][n][i] *= scale;
    }
  }
}

// -inf where a row does not see the key. `kv` is the key of the first column; of row lane / 4 + 8 * half of the m-th 16
// rows, keys_of(m, half) is the KvRange and mask_of(m, half) the mask's row, which is asked for where there is a mask.
template <int M, int N, typename KeysOf, typename MaskOf>
SPARK_DEVICE void hide_scores(float (&score)[M][N][4], const AttentionParams& p, int kv, const KeysOf& keys_of,
                              const MaskOf& mask_of) {
  const int first = kv + (lane_id() % 4) * 2;
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const KvRange keys = keys_of(m, half);
#pragma unroll
      for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          if (!contains(keys, first + n * 8 + j)) score[m][n][2 * half + j] = kNegInf;
        }
      }
    }
  }
  if (p.mask == nullptr) return;
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint8_t* mask = mask_of(m, half);
#pragma unroll
      for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          float& s = score[m][n][2 * half + j];
          if (s != kNegInf && mask[first + n * 8 + j] == 0) s = kNegInf;  // -inf: outside of the keys, or hidden anyway
        }
      }
    }
  }
}

// Scores -> weights, and the state under the new maximum. `scale` is what is left to multiply scores with (more than
// 0): as part of the exponential it costs nothing.
template <int HEAD_DIM, int M, int N>
SPARK_DEVICE void update_softmax(MmaState<HEAD_DIM, M>& state, float (&score)[M][N][4], float scale) {
  float factor[M][2];
  bool moved = false;
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float max = kNegInf;
#pragma unroll
      for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int j = 0; j < 2; ++j) max = fmaxf(max, score[m][n][2 * half + j]);
      }
      max = fmaxf(state.max[m][half], quad_max(max) * scale);
      factor[m][half] = rescale_factor(state.max[m][half], max);
      moved = moved || factor[m][half] != 1.0f;
      const float shift = softmax_shift(max);
      float sum = state.sum[m][half] * factor[m][half];
#pragma unroll
      for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          float& s = score[m][n][2 * half + j];
          s = exp2_fast(s * scale - shift);
          sum += s;
        }
      }
      state.max[m][half] = max;
      state.sum[m][half] = sum;
    }
  }
  // Multiplying by 1 changes nothing: skip it while no maximum of the warp moved.
  if (__any_sync(kFullMask, moved)) {
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (int n = 0; n < HEAD_DIM / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) state.acc[m][n][i] *= factor[m][i / 2];
      }
    }
  }
}

// O += P V  [16 * M, HEAD_DIM]; the score fragments are the A fragments of P as they lie.
template <typename T, int HEAD_DIM, int M, int N>
SPARK_DEVICE void multiply_pv(MmaState<HEAD_DIM, M>& state, const float (&weight)[M][N][4], const T* v_smem) {
  const int lane = lane_id();
  const SwizzledRow<HEAD_DIM> v_row(lane % 16, lane / 16);
#pragma unroll
  for (int step = 0; step < N / 2; ++step) {
    uint32_t p_frag[M][4];
#pragma unroll
    for (int m = 0; m < M; ++m) {
      const float (&low)[4] = weight[m][2 * step];
      const float (&high)[4] = weight[m][2 * step + 1];
      p_frag[m][0] = pack2<T>(low[0], low[1]);
      p_frag[m][1] = pack2<T>(low[2], low[3]);
      p_frag[m][2] = pack2<T>(high[0], high[1]);
      p_frag[m][3] = pack2<T>(high[2], high[3]);
    }
#pragma unroll
    for (int n = 0; n < HEAD_DIM / 8; n += 2) {
      uint32_t v_frag[4];  // columns of chunk n: registers 0 and 1; of chunk n + 1: registers 2 and 3
      ptx::ldmatrix_x4_trans(v_frag, v_row.at(v_smem, n) + 16 * step * HEAD_DIM);
      const uint32_t low[2] = {v_frag[0], v_frag[1]};
      const uint32_t high[2] = {v_frag[2], v_frag[3]};
#pragma unroll
      for (int m = 0; m < M; ++m) {
        ptx::mma_m16n8k16<T>(state.acc[m][n], p_frag[m], low, state.acc[m][n]);
        ptx::mma_m16n8k16<T>(state.acc[m][n + 1], p_frag[m], high, state.acc[m][n + 1]);
      }
    }
  }
}

}  // namespace spark
