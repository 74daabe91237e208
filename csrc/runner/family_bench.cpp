// bench: the kernel that reads a buffer.
#include "bench/params.h"
#include "runner/attention_call.h"
#include "runner/families.h"

namespace spark::runner {

void run_stream_read(Call& call) {
  const TensorEntry& data = call.input("data", ElementType::i32, {-1});
  check_contiguous(data);
  if (data.count() % 4 != 0 || data.offset % 16 != 0) reject("data is not whole words of 16 bytes");
  const TensorEntry* checksum = find_tensor(call.file().outputs, "checksum");
  if (checksum == nullptr) reject("the file has no output 'checksum'");
  StreamReadParams p = {};
  p.data = call.address(data);
  p.chunks = data.count() / 4;
  p.blocks = narrow("blocks", checksum->count());
  p.checksum = static_cast<uint32_t*>(call.output("checksum", ElementType::i32, {-1}).address());
  check_contiguous(*checksum);
  call.launch(call.variant(), &p);
}

}  // namespace spark::runner
