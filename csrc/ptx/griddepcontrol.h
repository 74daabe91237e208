// griddepcontrol: programmatic dependent launch (sm_90 and up; nothing below, where a launch always waits).
#pragma once

#include "common/platform.h"

namespace spark::ptx {

// Waits until the grids this one depends on have ended and their writes are visible.
SPARK_DEVICE void griddepcontrol_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets a dependent grid start once every block has said so or ended.
SPARK_DEVICE void griddepcontrol_launch_dependents() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace spark::ptx
