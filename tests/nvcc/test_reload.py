"""A library that is rebuilt while a process runs is loaded anew, not handed out as it was."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from sparkctl import ops
from sparkctl.arch import Arch
from sparkctl.build import ensure_built
from sparkctl.ops import devices
from sparkctl.registry import load_registry, select_variants

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(ROOT / "csrc", tmp_path / "csrc")
    shutil.copy(ROOT / "flags.yaml", tmp_path)
    monkeypatch.setenv("SPARKCTL_BUILD_DIR", str(tmp_path / "build"))
    devices._library_folder.cache_clear()
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    devices._library_folder.cache_clear()


def build(project: Path, head_dim: str) -> None:
    registry = load_registry(project / "flags.yaml")
    chosen = {"head_dim": [head_dim], "dtype": ["bf16"]}
    kernels = ["attn_decode_split_kv", "attn_combine"]
    variants = select_variants(registry, kernels, arch=Arch(9, 0), where=chosen)
    ensure_built(registry, variants, arch=Arch(9, 0), backend="emulator", build_root=project / "build")


def decode(head_dim: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(1, n, h, head_dim, generator=generator).bfloat16() for n, h in ((1, 4), (40, 2), (40, 2)))
    return ops.decode(q, k, v, backend="emulator", kernel="attn_decode_split_kv")


def test_an_edited_kernel_runs_after_the_next_build_in_the_same_process(project: Path) -> None:
    build(project, "32")
    before = decode(32)
    source = project / "csrc" / "attention" / "scores.cuh"
    text = source.read_text()
    assert ": soft_cap(p, raw)) * p.scale_log2" in text
    source.write_text(text.replace(": soft_cap(p, raw)) * p.scale_log2", ": soft_cap(p, raw)) * p.scale_log2 * 3.0f"))
    build(project, "32")
    assert not torch.equal(before, decode(32))


def test_a_variant_that_is_built_later_is_found_in_the_same_process(project: Path) -> None:
    build(project, "32")
    decode(32)
    build(project, "64")
    assert decode(64).isfinite().all()
