// Memory that kernels read and write: the device's on a GPU, the host's in the emulator.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

namespace spark::runner {

// The device said no: the case fails.
struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline constexpr size_t kAlignment = 256;  // as cudaMalloc gives it

}  // namespace spark::runner

#ifdef SPARK_EMULATOR

#include <cstdlib>
#include <cstring>

namespace spark::runner::device {

// Exactly `bytes`, so that a sanitizer sees the end; null for none.
inline void* allocate(size_t bytes) {
  void* memory = nullptr;
  if (bytes > 0 && posix_memalign(&memory, kAlignment, bytes) != 0) {
    throw DeviceError("no memory for " + std::to_string(bytes) + " bytes");
  }
  return memory;
}
inline void release(void* memory) {
  std::free(memory);
}
inline void fill(void* memory, unsigned char value, size_t bytes) {
  if (bytes > 0) std::memset(memory, value, bytes);
}
inline void upload(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}
inline void download(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}
inline void wait() {}
// Whether a fault has broken the device, so that every later case would fail too.
inline bool is_lost() {
  return false;
}
// Why no kernel can run; empty where one can.
inline std::string absence() {
  return {};
}

}  // namespace spark::runner::device

#else

#include <cuda_runtime.h>

namespace spark::runner::device {

inline void check(const char* step, cudaError_t code) {
  if (code == cudaSuccess) return;
  throw DeviceError(std::string(step) + ": " + cudaGetErrorString(code) + " (" + cudaGetErrorName(code) + ")");
}
inline void* allocate(size_t bytes) {
  void* memory = nullptr;
  if (bytes > 0) check("cudaMalloc", cudaMalloc(&memory, bytes));
  return memory;
}
inline void release(void* memory) {
  cudaFree(memory);  // in destructors: a lost device has been told by then
}
inline void fill(void* memory, unsigned char value, size_t bytes) {
  if (bytes > 0) check("cudaMemset", cudaMemset(memory, value, bytes));
}
inline void upload(void* to, const void* from, size_t bytes) {
  if (bytes > 0) check("cudaMemcpy", cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
}
inline void download(void* to, const void* from, size_t bytes) {
  if (bytes > 0) check("cudaMemcpy", cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
}
inline void wait() {
  check("the kernel", cudaDeviceSynchronize());
}
inline bool is_lost() {
  cudaGetLastError();  // what can be forgotten is no loss
  return cudaDeviceSynchronize() != cudaSuccess;
}
inline std::string absence() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess) return cudaGetErrorString(code);
  return count > 0 ? std::string() : "none is there";
}

}  // namespace spark::runner::device

#endif

namespace spark::runner {

class Buffer {
 public:
  explicit Buffer(size_t bytes) : data_(device::allocate(bytes)), bytes_(bytes) {}
  Buffer(Buffer&& other) noexcept : data_(other.data_), bytes_(other.bytes_) { other.data_ = nullptr; }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer& operator=(Buffer&&) = delete;
  ~Buffer() {
    if (data_ != nullptr) device::release(data_);
  }

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  void fill(unsigned char value) { device::fill(data_, value, bytes_); }

 private:
  void* data_;
  size_t bytes_;
};

}  // namespace spark::runner
