// A program around rmsnorm for `sparkctl test rmsnorm_check.cpp --sanitize race`, memory or undefined.
#define SPARK_DTYPE fp32
#define SPARK_BLOCK 256
#define SPARK_DYNAMIC_SMEM 0
#define SPARK_VARIANT rmsnorm.fp32
#define RMSNORM_UNROLL 4
#include "program/program.h"
#include "rmsnorm.cu"

using namespace spark;

int main() {
  const int rows = 3, cols = 300;
  const program::Buffer<float> x("x", std::vector<float>(rows * cols, 2.0f));
  const program::Buffer<float> weight("weight", std::vector<float>(cols, 0.5f));
  const program::Buffer<float> out("out", rows * cols);  // poison until the kernel writes it
  const LaunchConfig config{dim3(rows), dim3(SPARK_BLOCK)};
  program::run(SPARK_LAUNCH(rmsnorm_kernel<float>, config, x.data(), weight.data(), out.data(), cols, 0.0f));
  for (const float value : out.values()) {
    if (!program::failed()) program::expect(value == 0.5f, "out has %g, expected is 0.5", value);
  }
  return program::finish();
}
