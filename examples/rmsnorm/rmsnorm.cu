// rmsnorm: out = x * weight / sqrt(mean(x^2) + eps), each row by itself. Axis: SPARK_DTYPE.
// grid: [rows]; one CTA of SPARK_BLOCK threads reads a row twice, first for the mean, then for the result.
#include "common/launch.h"
#include "common/memory.h"
#include "common/types.h"
#include "common/variant.h"
#include "common/warp.h"
#include "own/arguments.h"

namespace spark {
namespace {

using fp32 = float;
constexpr int NUM_WARPS = SPARK_BLOCK / 32;
constexpr int UNROLL = RMSNORM_UNROLL;

template <typename T>
__global__ void __launch_bounds__(SPARK_BLOCK) rmsnorm_kernel(const T* x,       // [rows, cols]
                                                              const T* weight,  // [cols]
                                                              T* out,           // [rows, cols]
                                                              int64_t cols, float eps) {
  SHARED_ARRAY(float, warp_sum_smem, NUM_WARPS);
  const T* x_row = x + blockIdx.x * cols;
  T* out_row = out + blockIdx.x * cols;

  // global -> registers: the sum of squares
  float sum = 0.0f;
#pragma unroll UNROLL
  for (int64_t i = threadIdx.x; i < cols; i += SPARK_BLOCK) {
    const float value = to_float(x_row[i]);
    sum += value * value;
  }
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) warp_sum_smem[threadIdx.x / 32] = sum;
  __syncthreads();  // every warp's sum is written
  sum = 0.0f;
  for (int warp = 0; warp < NUM_WARPS; ++warp) sum += warp_sum_smem[warp];

  const float scale = 1.0f / sqrtf(sum / static_cast<float>(cols) + eps);
#pragma unroll UNROLL
  for (int64_t i = threadIdx.x; i < cols; i += SPARK_BLOCK) {
    out_row[i] = from_float<T>(to_float(x_row[i]) * scale * to_float(weight[i]));
  }
}

// From Python: kernel(x, weight, out, eps).
Status launch_rmsnorm(const void* params, void* stream) {
  using T = SPARK_DTYPE;
  own::Arguments args(params);
  const own::Tensor x = args.tensor<T>("x", {own::ANY, own::ANY});
  const own::Tensor weight = args.tensor<T>("weight", {x.size(1)});
  const own::Tensor out = args.tensor<T>("out", {x.size(0), x.size(1)});
  const float eps = static_cast<float>(args.number("eps"));
  if (const Status read = args.finish(); read.code != STATUS_OK) return read;
  if (x.size(0) == 0 || x.size(1) == 0) return ok();
  if (x.size(0) > INT32_MAX) return invalid_argument("x has more than 2^31 - 1 rows");

  LaunchConfig config;
  config.grid = dim3(static_cast<unsigned>(x.size(0)));
  config.block = dim3(SPARK_BLOCK);
  config.stream = stream;
  return SPARK_LAUNCH(rmsnorm_kernel<T>, config, x.data, weight.data, out.data, x.size(1), eps);
}

SPARK_REGISTER_VARIANT("own", launch_rmsnorm);

}  // namespace
}  // namespace spark
