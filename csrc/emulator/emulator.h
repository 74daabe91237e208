// The emulator's settings and its proof of work: plain C functions for the binding and the tests.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// The order in which the threads of a block, and the blocks of a grid, run between two synchronisation points.
enum { SPARK_EMULATOR_ASCENDING = 0, SPARK_EMULATOR_DESCENDING = 1, SPARK_EMULATOR_RANDOM_ORDER = 2 };

// When the bytes of a cp.async arrive: as late as PTX allows (poisoned until then), at once, or either by a coin.
enum { SPARK_EMULATOR_LATE = 0, SPARK_EMULATOR_EARLY = 1, SPARK_EMULATOR_RANDOM_COPIES = 2 };

// Holds for the launches that follow. A negative thread_schedule or async_mode and a workers of 0 or less stand for the
// default: SPARKCTL_EMULATOR_SCHEDULE, _ASYNC and _THREADS in the environment, else ascending, late and the cores.
void spark_emulator_configure(int thread_schedule, int async_mode, uint64_t seed, int workers);

// Shared memory that a block may use in all and that its static arrays may use, in bytes; 0 stands for the default:
// SPARKCTL_EMULATOR_SHARED_LIMIT in the environment, else 227 KiB (sm_90), and 48 KiB.
void spark_emulator_set_shared_limits(size_t block_bytes, size_t static_bytes);

// Names global memory that kernels are given, for the messages and the bounds of sanitized builds; elsewhere for
// dependent launches, which see what the kernel ahead changed in writable memory as 0xFF until griddepcontrol.wait. A
// kernel may write what is `writable`, and read what is `written` or what a kernel has written. While memory is named,
// launches come from one host thread at a time.
void spark_emulator_add_buffer(const char* name, const void* begin, size_t bytes, int writable, int written);
void spark_emulator_remove_buffer(const void* begin);

// The named memory that begins there is what the kernel ahead of the next launch writes: if that launch is a dependent
// one, it sees 0xFF there until griddepcontrol.wait, and the race check reports a read ahead of the wait.
void spark_emulator_written_ahead(const void* begin);

// 1 where host code did something undefined that no launch has failed for yet (builds for --sanitize undefined);
// spark_emulator_last_error then says what, and the next call gives 0.
int spark_emulator_host_failed(void);

// Kernels launched since the library was loaded, also those that ended in an error.
uint64_t spark_emulator_launch_count(void);

// The text of the last launched kernel, cut to fit; returns its whole length.
size_t spark_emulator_last_kernel(char* text, size_t size);

// The last launch's error in full, which Status::message may cut; empty after a launch that went well.
size_t spark_emulator_last_error(char* text, size_t size);

#ifdef __cplusplus
}
#endif
