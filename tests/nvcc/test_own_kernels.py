"""The example of docs/own-kernels.md compiles for a GPU, and its launcher is in the library."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sparkctl.arch import parse_arch
from sparkctl.build import ensure_built
from sparkctl.registry import load_registry, select_variants
from sparkctl.runtime import load_library
from sparkctl.toolchain import find_toolchain

pytestmark = pytest.mark.nvcc
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "rmsnorm"


def test_the_example_builds_for_a_gpu(tmp_path: Path, environ: dict[str, str]) -> None:
    if find_toolchain(environ=environ).nvcc is None:
        pytest.skip("no nvcc: pip install 'sparkctl[toolchain]'")
    folder = Path(shutil.copytree(EXAMPLE, tmp_path / "rmsnorm", ignore=shutil.ignore_patterns("build")))
    registry = load_registry(folder)
    variants = select_variants(registry, ("rmsnorm.bf16",))
    library = load_library(ensure_built(registry, variants, arch=parse_arch("sm_90"), backend="cuda", environ=environ))
    assert library.index == {"rmsnorm.bf16": 0}
    assert callable(library.function("call"))
    (built,) = library.manifest.variants
    assert built.registers
