// Answers occupancy questions with NVIDIA's own cuda_occupancy.h: one question a line on stdin, one answer a line.
#include <cuda_occupancy.h>

#include <cstdio>

int main() {
  cudaOccDeviceProp p;
  cudaOccFuncAttributes a;
  cudaOccDeviceState state;
  size_t smem_per_sm, smem_optin, dynamic_smem;
  int threads, static_smem;
  while (std::scanf("%d %d %d %zu %zu %d %d %d %zu %d", &p.computeMajor, &p.computeMinor,
                    &p.maxThreadsPerMultiprocessor, &smem_per_sm, &smem_optin, &threads, &a.numRegs, &static_smem,
                    &dynamic_smem, &a.numBlockBarriers) == 10) {
    p.maxThreadsPerBlock = 1024;
    p.regsPerBlock = p.regsPerMultiprocessor = 65536;
    p.warpSize = 32;
    p.sharedMemPerBlock = 48 * 1024;
    p.sharedMemPerMultiprocessor = smem_per_sm;
    p.sharedMemPerBlockOptin = smem_optin;
    p.reservedSharedMemPerBlock = 1024;
    p.numSms = 1;
    a.maxThreadsPerBlock = 1024;
    a.sharedSizeBytes = static_smem;
    a.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    a.maxDynamicSharedSizeBytes = smem_optin;
    cudaOccResult result;
    const int status = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &p, &a, &state, threads, dynamic_smem);
    std::printf("%d %d %u\n", status, result.activeBlocksPerMultiprocessor, result.limitingFactors);
  }
}
