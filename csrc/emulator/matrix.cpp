// mma.sync and ldmatrix: what the last lane to arrive does for its warp.
#include <cstdio>

#include "common/types.h"
#include "emulator/block.h"
#include "emulator/watch.h"
#include "ptx/ldmatrix.h"
#include "ptx/mma.h"

namespace spark::emulator {
namespace {

constexpr int kM = 16, kN = 8, kK = 16;

using Vec4 = float __attribute__((vector_size(16)));

template <DType kDType>
float element(uint32_t pair, int half) {
  const auto bits = static_cast<uint16_t>(half == 0 ? pair : pair >> 16);
  return kDType == DType::bf16 ? bf16_to_float(bits) : fp16_to_float(bits);
}

// d = a b + c, products exact in fp32, each sum rounded, k ascending from c.
template <DType kDType>
void multiply(void* const* slots, unsigned, Site) {
  float a[kM][kK];
  Vec4 b[kK][2];
  Vec4 d[kM][2];
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto& slot = *static_cast<const MmaSlot*>(slots[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < 4; ++i) a[g + i % 2 * 8][2 * t + half + i / 2 * 8] = element<kDType>(slot.a[i], half);
      for (int i = 0; i < 2; ++i) b[2 * t + half + i * 8][g / 4][g % 4] = element<kDType>(slot.b[i], half);
      for (int i = 0; i < 2; ++i) d[g + i * 8][t / 2][t % 2 * 2 + half] = slot.c[2 * i + half];
    }
  }
  for (int m = 0; m < kM; ++m) {
    Vec4 low = d[m][0], high = d[m][1];
    for (int k = 0; k < kK; ++k) {
      low += a[m][k] * b[k][0];
      high += a[m][k] * b[k][1];
    }
    d[m][0] = low;
    d[m][1] = high;
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto& slot = *static_cast<const MmaSlot*>(slots[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) slot.d[i] = d[g + i / 2 * 8][t / 2][t % 2 * 2 + i % 2];
  }
}

[[noreturn]] void fail_row(const void* address, int lane, Site at) {
  char whose[32];
  std::snprintf(whose, sizeof whose, "ldmatrix: lane %d's", lane);
  fail_shared(address, 16, 16, whose, at);
}

template <int kMatrices, bool kTrans>
void load_matrices(void* const* slots, unsigned, Site at) {
  for (int matrix = 0; matrix < kMatrices; ++matrix) {
    const uint16_t* rows[8];
    for (int row = 0; row < 8; ++row) {
      const void* address = static_cast<const LdmatrixSlot*>(slots[matrix * 8 + row])->row;
      if (!is_shared(address, 16, 16)) fail_row(address, matrix * 8 + row, at);
      rows[row] = static_cast<const uint16_t*>(address);
      if constexpr (kWatches) {  // a row is read by the lane that names it
        Thread& self = running_thread();
        Thread& reader = self.block->threads[self.warp() * kLanes + matrix * 8 + row];
        watch::access(reader, {address, 16, AccessKind::kLdmatrix, place_of(at)});
      }
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      const int g = lane / 4, t = lane % 4;
      const uint32_t low = kTrans ? rows[2 * t][g] : rows[g][2 * t];
      const uint32_t high = kTrans ? rows[2 * t + 1][g] : rows[g][2 * t + 1];
      static_cast<const LdmatrixSlot*>(slots[lane])->r[matrix] = low | high << 16;
    }
  }
}

}  // namespace

const Collective kMmaBf16{"mma.m16n8k16.bf16", true, multiply<DType::bf16>};
const Collective kMmaFp16{"mma.m16n8k16.fp16", true, multiply<DType::fp16>};
const Collective kLdmatrix[3] = {{"ldmatrix.x1", true, load_matrices<1, false>},
                                 {"ldmatrix.x2", true, load_matrices<2, false>},
                                 {"ldmatrix.x4", true, load_matrices<4, false>}};
const Collective kLdmatrixTrans[3] = {{"ldmatrix.x1.trans", true, load_matrices<1, true>},
                                      {"ldmatrix.x2.trans", true, load_matrices<2, true>},
                                      {"ldmatrix.x4.trans", true, load_matrices<4, true>}};

}  // namespace spark::emulator
