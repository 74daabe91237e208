"""Every shared header stands alone, for the emulator and for nvcc."""

import subprocess
from pathlib import Path

import pytest
from programs import FLAGS, INCLUDES, ROOT

from sparkctl.toolchain import find_toolchain

CSRC = ROOT / "csrc"
EMULATOR = [f"emulator/{path.name}" for path in sorted((CSRC / "emulator").glob("*.h"))]
SHARED = [
    f"{folder}/{path.name}"
    for folder in ("common", "ptx", "attention", "bench")
    for path in sorted((CSRC / folder).glob("*.h"))
]


def test_each_ptx_header_has_its_emulator_twin() -> None:
    on_gpu = {path.name for path in (CSRC / "ptx").glob("*.h")}
    on_cpu = {path.name for path in (CSRC / "emulator" / "ptx").glob("*.h")}
    assert on_gpu == on_cpu


@pytest.mark.parametrize("header", SHARED + EMULATOR)
def test_a_header_compiles_alone_for_the_emulator(header: str) -> None:
    command = ["g++", *FLAGS, *INCLUDES, "-fsyntax-only", "-x", "c++", "-"]
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
    command = [nvcc, "-arch=sm_80", "-std=c++17", "-I", str(CSRC), "-cubin", "-o", str(tmp_path / "all.cubin"), source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
