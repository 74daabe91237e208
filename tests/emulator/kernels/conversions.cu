// bf16 and fp16 against float, both ways; on the emulator also against NVIDIA's own host functions.
#include "harness.h"

using namespace spark;
using namespace spark::test;

namespace {

struct Table {
  uint32_t* floats;    // [65536]: to_float of every pattern
  uint32_t* unpacked;  // [65536]: the same by unpack2, from the high half
};

template <typename T>
__global__ void widen_kernel(const __grid_constant__ Table p) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  const auto bits = static_cast<uint16_t>(i);
  const T x = reinterpret_cast<const T&>(bits);
  p.floats[i] = __float_as_uint(to_float(x));
  p.unpacked[i] = __float_as_uint(unpack2<T>(i << 16 | (i ^ 1u)).y);
}

template <typename T>
Status run_widen() {
  const Table p{make_buffer<uint32_t>(65536), make_buffer<uint32_t>(65536)};
  const Status status = finished(launch(widen_kernel<T>, LaunchConfig{dim3(256), dim3(256)}, p));
  uint32_t differences = 0;
  for (uint32_t i = 0; i < 65536; ++i) {
    float expected;
    if constexpr (dtype_of<T> == DType::bf16) {
      expected = __bfloat162float(__ushort_as_bfloat16(static_cast<uint16_t>(i)));
    } else {
      expected = __half2float(__ushort_as_half(static_cast<uint16_t>(i)));
    }
    differences += std::memcmp(&expected, p.floats + i, sizeof expected) != 0;
  }
  show("differences", differences);
  show("floats", p.floats, 65536);
  show("unpacked", p.unpacked, 65536);
  return status;
}

struct Narrowed {
  const float* in;   // [count]
  uint16_t* out;     // [count]
  uint32_t* packed;  // [count]: with its neighbour in the high half
  int count;
};

template <typename T>
__global__ void narrow_kernel(const __grid_constant__ Narrowed p) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= p.count) return;
  reinterpret_cast<T*>(p.out)[i] = from_float<T>(p.in[i]);
  p.packed[i] = pack2<T>(p.in[i], p.in[(i + 1) % p.count]);
}

// Every pattern's float, its neighbours, the halfway points between patterns and theirs, and random bits.
template <typename T>
std::vector<float> hard_floats() {
  std::vector<float> floats;
  Numbers numbers;
  for (uint32_t i = 0; i < 65536; i += 1 + i % 3) {
    uint32_t bits = i << 16;
    if constexpr (dtype_of<T> == DType::fp16) {
      const float x = __half2float(__ushort_as_half(static_cast<uint16_t>(i)));
      std::memcpy(&bits, &x, sizeof bits);
    }
    const uint32_t half_step = dtype_of<T> == DType::fp16 ? 0x1000u : 0x8000u;
    for (uint32_t b : {bits, bits + 1, bits - 1, bits + half_step, bits + half_step - 1, bits + half_step + 1,
                       static_cast<uint32_t>(numbers.next())}) {
      float x;
      std::memcpy(&x, &b, sizeof x);
      floats.push_back(x);
    }
  }
  return floats;
}

template <typename T>
Status run_narrow() {
  const std::vector<float> floats = hard_floats<T>();
  const int count = static_cast<int>(floats.size());
  float* in = make_buffer<float>(count);
  std::memcpy(in, floats.data(), count * sizeof(float));
  const Narrowed p{in, make_buffer<uint16_t>(count), make_buffer<uint32_t>(count), count};
  const Status status = finished(launch(narrow_kernel<T>, LaunchConfig{dim3(ceil_div(count, 256)), dim3(256)}, p));
  uint32_t differences = 0;
  for (int i = 0; i < count; ++i) {
    uint16_t expected;
    if constexpr (dtype_of<T> == DType::bf16) {
      expected = __bfloat16_as_ushort(__float2bfloat16_rn(in[i]));
    } else {
      expected = __half_as_ushort(__float2half_rn(in[i]));
    }
    const uint32_t next = p.out[(i + 1) % count];
    differences += p.out[i] != expected;
    differences += p.packed[i] != (expected | next << 16);
  }
  show("count", static_cast<uint32_t>(count));
  show("differences", differences);
  return status;
}

}  // namespace

CASE(widen_bf16) {
  return run_widen<bf16>();
}
CASE(widen_fp16) {
  return run_widen<fp16>();
}
CASE(narrow_bf16) {
  return run_narrow<bf16>();
}
CASE(narrow_fp16) {
  return run_narrow<fp16>();
}
