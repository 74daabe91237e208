// stream_read as Python calls it: a buffer in, one checksum per block out.
#include <tvm/ffi/function.h>

#include "bench/params.h"
#include "bindings/tensors.h"
#include "bindings/variants.h"

namespace spark::bindings {
namespace {

constexpr int64_t CHUNK_BYTES = 16;

int64_t chunks_of(const TensorView& data) {
  check_contiguous("data", data);
  const int64_t bytes = data.numel() * data.dtype().bits * data.dtype().lanes / 8;
  if (bytes % CHUNK_BYTES != 0) {
    TVM_FFI_THROW(ValueError) << "data has " << bytes << " bytes, accepted is a multiple of " << CHUNK_BYTES;
  }
  if (reinterpret_cast<uintptr_t>(data_of(data)) % CHUNK_BYTES != 0) {
    TVM_FFI_THROW(ValueError) << "data does not start at a multiple of " << CHUNK_BYTES << " bytes";
  }
  return bytes / CHUNK_BYTES;
}

}  // namespace

// Reads all of data; checksum int32 [blocks], whose XOR is that of data's 32-bit words. Its size is the grid.
void stream_read(int64_t variant, TensorView data, TensorView checksum) {
  if (data.device().device_type != SPARK_DEVICE_TYPE) {
    TVM_FFI_THROW(ValueError) << "data is on device type " << data.device().device_type << ", accepted is "
                              << static_cast<int>(SPARK_DEVICE_TYPE);
  }
  if (checksum.device().device_type != data.device().device_type ||
      checksum.device().device_id != data.device().device_id) {
    TVM_FFI_THROW(ValueError) << "checksum is not on the device of data";
  }
  check_dtype("checksum", checksum, INT32);
  check_rank("checksum", checksum, 1, "[blocks]");
  check_contiguous("checksum", checksum);
  StreamReadParams p = {};
  p.data = data_of(data);
  p.checksum = static_cast<uint32_t*>(data_of(checksum));
  p.chunks = chunks_of(data);
  p.blocks = int32_of("checksum's size", checksum.size(0));
  const Variant& entry = variant_for("bench", variant);
  const LaunchContext context(data.device());
  raise_if_failed(entry.launcher(&p, context.stream()));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(stream_read, stream_read);

}  // namespace spark::bindings
