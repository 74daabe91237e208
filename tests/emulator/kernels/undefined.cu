// Kernels whose behaviour is undefined on the line `here: TAG`, and healthy twins on the same code with other values.
// The values come through memory, so that no compiler knows them.
#include <climits>

#include "harness.h"

using namespace spark;
using namespace spark::test;

namespace {

struct Params {
  const long long* in;
  float* real;
  long long* out;
};

#define KERNEL(name) __global__ void name(const __grid_constant__ Params p)

KERNEL(add) {
  const int a = static_cast<int>(p.in[0]), b = static_cast<int>(p.in[1]);
  p.out[threadIdx.x] = a + b;  // here: add
}

KERNEL(subtract) {
  const int a = static_cast<int>(p.in[0]), b = static_cast<int>(p.in[1]);
  p.out[threadIdx.x] = a - b;  // here: subtract
}

KERNEL(multiply) {
  const int page = static_cast<int>(p.in[0]), stride = static_cast<int>(p.in[1]);
  p.out[threadIdx.x] = page * stride;  // here: multiply
}

KERNEL(multiply_long) {
  p.out[threadIdx.x] = p.in[0] * p.in[1];  // here: multiply_long
}

KERNEL(multiply_128) {
  const __int128 a = static_cast<__int128>(p.in[0]) << 64;
  p.out[threadIdx.x] = static_cast<long long>((a * p.in[1]) >> 64);  // here: multiply_128
}

KERNEL(negate) {
  const int a = static_cast<int>(p.in[0]);
  p.out[threadIdx.x] = -a;  // here: negate
}

KERNEL(divide) {
  const int a = static_cast<int>(p.in[0]), b = static_cast<int>(p.in[1]);
  p.out[threadIdx.x] = a / b;  // here: divide
}

KERNEL(shift) {
  const unsigned a = static_cast<unsigned>(p.in[0]);
  p.out[threadIdx.x] = a << p.in[1];  // here: shift
}

KERNEL(shift_left) {
  const int a = static_cast<int>(p.in[0]);
  p.out[threadIdx.x] = a << p.in[1];  // here: shift_left
}

KERNEL(index) {
  int scores[4] = {1, 2, 3, 4};
  scores[0] = static_cast<int>(p.in[1]);
  p.out[threadIdx.x] = scores[p.in[0]];  // here: index
}

KERNEL(pointer) {
  const auto* p_in = reinterpret_cast<const int4*>(p.in[0]);
  p.out[threadIdx.x] = p_in->y;  // here: pointer
}

KERNEL(store) {
  *reinterpret_cast<long long*>(p.in[0]) = 1;  // here: store
  p.out[threadIdx.x] = 1;
}

KERNEL(truth) {
  p.out[threadIdx.x] = *reinterpret_cast<const bool*>(p.in) ? 3 : 4;  // here: truth
}

KERNEL(arithmetic) {
  const char* last = reinterpret_cast<const char*>(p.in) + p.in[0];  // here: arithmetic
  p.out[threadIdx.x] = reinterpret_cast<long long>(last);
}

KERNEL(convert) {
  p.out[threadIdx.x] = static_cast<int>(p.real[0]);  // here: convert
}

KERNEL(unreachable) {
  if (p.in[0] == 1) __builtin_unreachable();  // here: unreachable
  p.out[threadIdx.x] = 1;
}

int without_value(long long x) {  // here: no_return
  if (x > 1) return 5;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wreturn-type"
}
#pragma GCC diagnostic pop

KERNEL(no_return) {
  p.out[threadIdx.x] = without_value(p.in[0]);
}

KERNEL(array_of_none) {
  int values[p.in[0]];  // here: array_of_none
  values[0] = 1;
  p.out[threadIdx.x] = values[p.in[1]];
}

__attribute__((nonnull, noinline)) long long first_of(const void* values) {
  return *static_cast<const volatile char*>(values) != 0;
}

KERNEL(null_argument) {
  p.out[threadIdx.x] = first_of(reinterpret_cast<const void*>(p.in[0]));  // here: null_argument
}

__attribute__((returns_nonnull, noinline)) const void* same(const void* values) {
  return values;  // here: null_result
}

KERNEL(null_result) {
  p.out[threadIdx.x] = same(reinterpret_cast<const void*>(p.in[0])) == p.in;
}

KERNEL(lowest_bit) {
  p.out[threadIdx.x] = __builtin_ctz(static_cast<unsigned>(p.in[0]));  // here: lowest_bit
}

struct Scale {
  virtual int of(int x) const { return 2 * x; }
};
struct Triple : Scale {
  int of(int x) const override { return 3 * x; }
};

__attribute__((noinline)) int scaled(const Scale& scale, int x) {
  return scale.of(x);
}

KERNEL(virtual_call) {
  p.out[threadIdx.x] = scaled(Triple(), static_cast<int>(p.in[0]));
}

// Only thread 5 of block 1 goes wrong.
KERNEL(one_thread) {
  int a = static_cast<int>(p.in[0]);
  if (blockIdx.x == 1 && threadIdx.x == 5) a += static_cast<int>(p.in[1]);  // here: one_thread
  p.out[threadIdx.x] = a;
}

Status run(void (*kernel)(Params), long long a, long long b = 0, float real = 0.0f, dim3 grid = dim3(1)) {
  auto* in = make_buffer<long long>(4);
  auto* number = make_buffer<float>(4);
  auto* out = make_buffer<long long>(64);
  in[0] = a;
  in[1] = b;
  number[0] = real;
  const Status status = finished(launch(kernel, LaunchConfig{grid, dim3(32)}, Params{in, number, out}));
  show("out", out, 1);
  return status;
}

// Two cases of one kernel: NAME and NAME_twin.
#define TWINS(kernel, healthy, ...)  \
  CASE(kernel) {                     \
    return run(kernel, __VA_ARGS__); \
  }                                  \
  CASE(kernel##_twin) {              \
    return run healthy;              \
  }

alignas(16) const int kNumbers[8] = {1, 2, 3, 4, 5, 6, 7, 8};
long long stored[2];

long long address(const void* base, int offset = 0) {
  return reinterpret_cast<long long>(base) + offset;
}

TWINS(add, (add, INT_MAX - 1, 1), INT_MAX, 1)
TWINS(subtract, (subtract, INT_MIN + 1, 1), INT_MIN, 1)
TWINS(multiply, (multiply, 65535, 32768), 70000, 32768)
TWINS(multiply_long, (multiply_long, LLONG_MAX, 1), LLONG_MAX, 2)
TWINS(multiply_128, (multiply_128, LLONG_MAX, 1), LLONG_MAX, 2)
TWINS(negate, (negate, INT_MIN + 1), INT_MIN)
TWINS(divide, (divide, 7, 2), 7, 0)
CASE(divide_too_far) {
  return run(divide, INT_MIN, -1);
}
TWINS(shift, (shift, 1, 31), 1, 32)
CASE(shift_by_less_than_none) {
  return run(shift, 1, -1);
}
TWINS(shift_left, (shift_left, 1, 30), 5, 30)
CASE(shift_of_a_negative) {
  return run(shift_left, -3, 1);
}
TWINS(index, (index, 3), 4)
CASE(index_before) {
  return run(index, -1);
}
TWINS(pointer, (pointer, address(kNumbers)), 0)
CASE(pointer_misaligned) {
  return run(pointer, address(kNumbers, 4));
}
TWINS(store, (store, address(stored)), address(stored, 4))
TWINS(truth, (truth, 1), 7)
TWINS(arithmetic, (arithmetic, -8), LLONG_MIN)
TWINS(convert, (convert, 0, 0, -2147483648.0f), 0, 0, 3e9f)
TWINS(unreachable, (unreachable, 0), 1)
TWINS(no_return, (no_return, 2), 1)
TWINS(array_of_none, (array_of_none, 3), -2)
TWINS(null_argument, (null_argument, address(kNumbers)), 0)
TWINS(null_result, (null_result, address(kNumbers)), 0)
TWINS(lowest_bit, (lowest_bit, 8), 0)
TWINS(one_thread, (one_thread, INT_MAX, 0, 0, dim3(2)), INT_MAX, 1, 0, dim3(2))

CASE(virtual_call_twin) {
  return run(virtual_call, 5);
}

int rows_of(int a, int b) {
  return a * b;  // here: host
}

long long kept = 0;

}  // namespace

CASE(host_before_its_launch) {
  stored[0] = rows_of(static_cast<int>(std::strlen("four")) * 20000, 40000);
  return run(add, stored[0] & 1, 1);
}

CASE(host_before_its_launch_twin) {
  stored[0] = rows_of(static_cast<int>(std::strlen("four")) * 200, 400);
  return run(add, stored[0] & 1, 1);
}

// A launch that went wrong leaves nothing to the next.
CASE(host_told_once) {
  stored[0] = rows_of(static_cast<int>(std::strlen("four")) * 20000, 40000);
  kept = run(add, 1, 1).code;
  show("first", kept);
  return run(add, 1, 1);
}

CASE(host_after_its_launch) {
  const Status status = run(add, 1, 1);
  stored[0] = rows_of(static_cast<int>(std::strlen("four")) * 20000, 40000);
  show("failed", spark_emulator_host_failed());
  show("again", spark_emulator_host_failed());
  return status;
}
