"""A project of one kernel that wants many registers, and the tools that its tests need."""

from __future__ import annotations

import os

import pytest

from sparkctl.errors import SparkctlError
from sparkctl.toolchain import Toolchain, find_toolchain

REGISTRY = """\
version: 1
profiles:
  release: {doc: What ships., nvcc: [-O3], ptxas: [-v]}
flags:
  cap:
    kind: ptxas
    type: str
    default: ''
    affects: ['*']
    options: {'*': ['{value}']}
    doc: A register cap.
    reason: Makes the kernel spill.
kernels:
  hungry:
    family: demo
    doc: Keeps REGISTERS_WANTED values in registers and some in shared memory.
    source: csrc/hungry.cu
    min_arch: sm_80
    axes:
      values: {values: [16, 64], short: v}
    block: 128
    dynamic_smem: 64 * values
    accepts: {bytes: 0..}
"""

SOURCE = """\
extern __shared__ float dynamic_tile[];
template <int VALUES>
__global__ void __launch_bounds__(SPARK_BLOCK) hungry_kernel(float* out, const float* in, int n) {
  __shared__ float tile[VALUES];
  float value[VALUES];
#pragma unroll
  for (int i = 0; i < VALUES; ++i) value[i] = in[i * n + threadIdx.x];
  tile[threadIdx.x % VALUES] = value[0];
  dynamic_tile[threadIdx.x % VALUES] = value[1];
  __syncthreads();
  for (int k = 0; k < n; ++k)
#pragma unroll
    for (int i = 0; i < VALUES; ++i)
      value[i] = value[i] * value[(i + 7) % VALUES] + tile[k % VALUES] + dynamic_tile[k % VALUES];
#pragma unroll
  for (int i = 0; i < VALUES; ++i) out[i * n + threadIdx.x] = value[i];
}
template __global__ void hungry_kernel<SPARK_VALUES>(float*, const float*, int);
"""


def whole_toolchain() -> Toolchain:
    """CI promises nvcc, cuobjdump, g++ and ninja: there, their absence is a failure."""
    try:
        found = find_toolchain()
        found.require_nvcc(), found.require_host(), found.require_ninja()
    except SparkctlError as error:
        missing(error.message)
    if found.cuobjdump is None:
        missing("no cuobjdump")
    return found


def missing(what: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(f"{what}, though CI promises it")
    pytest.skip(what)
