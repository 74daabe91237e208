// What the library holds: names in the order of their indices, and what the emulator has run.
#include "bindings/variants.h"

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>

#ifdef SPARK_EMULATOR
#include "emulator/emulator.h"
#endif

namespace spark::bindings {
namespace {

tvm::ffi::Array<tvm::ffi::String> variant_names() {
  tvm::ffi::Array<tvm::ffi::String> names;
  for (size_t i = 0; i < variant_count(); ++i) names.push_back(find_variant(i)->name);
  return names;
}

#ifdef SPARK_EMULATOR
void emulator_configure(int64_t thread_schedule, int64_t async_mode, int64_t seed, int64_t workers) {
  spark_emulator_configure(static_cast<int>(thread_schedule), static_cast<int>(async_mode), static_cast<uint64_t>(seed),
                           static_cast<int>(workers));
}

void emulator_set_shared_limits(int64_t block_bytes, int64_t static_bytes) {
  spark_emulator_set_shared_limits(static_cast<size_t>(block_bytes), static_cast<size_t>(static_bytes));
}

int64_t emulator_launch_count() {
  return static_cast<int64_t>(spark_emulator_launch_count());
}

tvm::ffi::String emulator_last_kernel() {
  char name[256] = {};
  spark_emulator_last_kernel(name, sizeof(name));
  return name;
}
#endif

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(variant_names, variant_names);
#ifdef SPARK_EMULATOR
TVM_FFI_DLL_EXPORT_TYPED_FUNC(emulator_configure, emulator_configure);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(emulator_set_shared_limits, emulator_set_shared_limits);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(emulator_launch_count, emulator_launch_count);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(emulator_last_kernel, emulator_last_kernel);
#endif

}  // namespace spark::bindings
