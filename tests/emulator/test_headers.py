"""Every shared header stands alone, for the emulator and for nvcc."""

import subprocess
from pathlib import Path

import pytest
from programs import FLAGS, INCLUDES, ROOT
from tvm_ffi.libinfo import find_dlpack_include_path, find_include_path

from sparkctl.toolchain import find_toolchain

CSRC = ROOT / "csrc"
HEADERS = sorted(str(path.relative_to(CSRC)) for suffix in ("*.h", "*.cuh") for path in CSRC.rglob(suffix))
EMULATOR = [name for name in HEADERS if name.startswith("emulator/") and not name.startswith("emulator/ptx/")]
BINDINGS = [name for name in HEADERS if name.startswith("bindings/")]
SHARED = [name for name in HEADERS if not name.startswith(("emulator/", "bindings/"))]
TVM_FFI = ["-I", find_include_path(), "-I", find_dlpack_include_path()]
# What a variant's compile defines; templates are not instantiated here, so any values do.
VARIANT = ["-DSPARK_BLOCK=256", "-DSPARK_MIN_BLOCKS=1", "-DSPARK_DYNAMIC_SMEM=0", "-DSPARK_DTYPE=__nv_bfloat16"]
VARIANT += ["-DSPARK_HEAD_DIM=64", "-DSPARK_PAGED=0", "-DSPARK_STAGES=1", "-DSPARK_TILE=14"]
RUNNER = ["-DSPARK_RUNNER_SHARED_LIMIT=1", "-DSPARK_RUNNER_STATIC_SHARED_LIMIT=1"]
VARIANT += [
    f"-DSPARK_ACCEPTS_{name}_{end}={value}"
    for name in ("GROUP", "QO_LEN", "KV_LEN", "PAGE_SIZE", "NUM_SPLITS", "NUM_STATES")
    for end, value in (("MIN", 1), ("MAX", 64))
]


def test_each_ptx_header_has_its_emulator_twin() -> None:
    on_gpu = {path.name for path in (CSRC / "ptx").glob("*.h")}
    on_cpu = {path.name for path in (CSRC / "emulator" / "ptx").glob("*.h")}
    assert on_gpu == on_cpu


def test_no_header_is_left_out() -> None:
    ptx = [name for name in HEADERS if name.startswith("emulator/ptx/")]
    assert sorted(SHARED + EMULATOR + BINDINGS + ptx) == HEADERS
    assert {"attention/scores.cuh", "attention/split_kv_mma.cuh", "combine/combine.cuh"} <= set(SHARED)


@pytest.mark.parametrize("header", SHARED + EMULATOR + BINDINGS)
def test_a_header_compiles_alone_for_the_emulator(header: str) -> None:
    extra = [*VARIANT, "-Wno-unused-function"] if header.endswith(".cuh") else TVM_FFI if header in BINDINGS else RUNNER
    command = ["g++", *FLAGS, *INCLUDES, *extra, "-fsyntax-only", "-x", "c++", "-"]
    done = subprocess.run(command, input=f'#include "{header}"\n', capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("params", ["attention/params.h", "bench/params.h"])
def test_params_compile_with_plain_gxx(params: str) -> None:
    command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-I", str(CSRC), "-fsyntax-only", "-x", "c++", "-"]
    done = subprocess.run(command, input=f'#include "{params}"\n', capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.nvcc
@pytest.mark.parametrize("backwards", [False, True])
def test_the_headers_compile_for_a_gpu_in_any_order(tmp_path: Path, backwards: bool) -> None:
    nvcc = find_toolchain().require_nvcc().path
    headers = SHARED[::-1] if backwards else SHARED
    source = tmp_path / "all.cu"
    source.write_text("".join(f'#include "{header}"\n' for header in headers))
    command = [
        nvcc,
        "-arch=sm_80",
        "-std=c++17",
        *VARIANT,
        "-I",
        str(CSRC),
        "-cubin",
        "-o",
        str(tmp_path / "all.cubin"),
        source,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
