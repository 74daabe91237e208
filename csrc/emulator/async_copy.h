// cp.async in the emulator: when the bytes arrive is the async mode's choice, within what PTX allows.
#pragma once

#include "emulator/runtime.h"

namespace spark::emulator {

// 16 bytes; zeros, with gmem unread, when not valid.
void async_copy_16(void* smem, const void* gmem, bool valid, Site at);
void async_commit_group();
// Lands this thread's copies but those of its latest `pending` groups.
void async_wait_group(unsigned pending);
// Lands all of them, also those not committed.
void async_wait_all();

}  // namespace spark::emulator
