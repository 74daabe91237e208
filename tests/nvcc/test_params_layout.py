"""params.h means the same bytes to both compilers: sizes and offsets as g++ prints them hold in nvcc's device code."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from sparkctl.toolchain import find_toolchain

CSRC = Path(__file__).resolve().parents[2] / "csrc"
HEADERS = ("attention/params.h", "bench/params.h")

pytestmark = pytest.mark.nvcc


def fields_of(header: str) -> dict[str, list[str]]:
    """The structs of a header and their own fields; a base's are listed under the base."""
    text = re.sub(r"//[^\n]*", "", (CSRC / header).read_text(encoding="utf-8"))
    structs = re.findall(r"struct (\w+)(?:\s*:\s*(?:public\s+)?\w+)?\s*\{(.*?)\n\};", text, flags=re.DOTALL)
    return {name: re.findall(r"(\w+)\s*(?=[;,])", body) for name, body in structs}


def expressions() -> list[str]:
    found = []
    for header in HEADERS:
        for name, fields in fields_of(header).items():
            found.append(f"sizeof(spark::{name})")
            found.extend(f"offsetof(spark::{name}, {field})" for field in fields)
    return found


def includes() -> str:
    return "#include <cstddef>\n#include <cstdio>\n" + "".join(f'#include "{header}"\n' for header in HEADERS)


def run(command: list[object]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)


def host_values(folder: Path) -> dict[str, int]:
    """Every expression as g++ evaluates it, alone, without a CUDA header."""
    lines = "".join(f'  std::printf("%zu\\n", {expression});\n' for expression in expressions())
    source = folder / "host.cpp"
    source.write_text(f"{includes()}int main() {{\n{lines}}}\n", encoding="utf-8")
    built = run(["g++", "-std=c++17", "-Wno-invalid-offsetof", "-I", CSRC, "-o", folder / "host", source])
    assert built.returncode == 0, built.stderr
    return dict(zip(expressions(), map(int, run([folder / "host"]).stdout.split()), strict=True))


def compile_for_device(folder: Path, values: dict[str, int]) -> subprocess.CompletedProcess[str]:
    lines = "".join(f'  static_assert({text} == {value}, "{text}");\n' for text, value in values.items())
    source = folder / "device.cu"
    source.write_text(
        f"{includes()}#ifdef __CUDA_ARCH__\n__device__ void layout() {{\n{lines}}}\n#endif\n", encoding="utf-8"
    )
    nvcc = find_toolchain().require_nvcc().path
    return run([nvcc, "-arch=sm_80", "-std=c++17", "-I", CSRC, "-cubin", "-o", folder / "device.cubin", source])


def test_host_and_device_agree_on_every_size_and_offset(tmp_path: Path) -> None:
    values = host_values(tmp_path)
    names = fields_of("attention/params.h")
    assert {"AttentionParams", "DecodeParams", "PrefillParams", "CombineParams"} <= set(names)
    assert {"q", "mask", "window", "softcap_scale"} <= set(names["AttentionParams"])
    assert len(values) > 60
    done = compile_for_device(tmp_path, values)
    assert done.returncode == 0, done.stderr


def test_an_offset_that_differs_is_found(tmp_path: Path) -> None:
    wrong = {
        "offsetof(spark::AttentionParams, window)": host_values(tmp_path)["offsetof(spark::AttentionParams, window)"]
    }
    wrong = {name: value + 4 for name, value in wrong.items()}
    done = compile_for_device(tmp_path, wrong)
    assert done.returncode != 0
    assert "offsetof(spark::AttentionParams, window)" in done.stderr
