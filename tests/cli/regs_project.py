"""A project whose compiler logs are written, not compiled, for the tests of `sparkctl regs`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparkctl.arch import parse_arch
from sparkctl.cli.app import main
from sparkctl.toolchain import Nvcc, Toolchain

REGISTRY = """\
version: 1
profiles:
  release: {doc: What ships., nvcc: [-O3], ptxas: [-v]}
flags: {}
kernels:
  ring:
    family: demo
    doc: A ring of tiles.
    source: ring.cu
    min_arch: sm_80
    axes:
      dtype: {values: [bf16, fp16]}
      head_dim: {values: [64, 256], short: d}
    block: 2 * head_dim
    dynamic_smem: 512 * head_dim
    accepts: {group: 1..8}
  merge:
    family: demo
    doc: Merges.
    source: merge.cu
    min_arch: sm_80
    axes:
      dtype: {values: [bf16]}
    block: 128
    dynamic_smem: 0
    accepts: {group: 1..8}
  warped:
    family: demo
    doc: Needs one chip.
    source: warped.cu
    min_arch: sm_90a
    axes:
      dtype: {values: [bf16]}
    block: 128
    dynamic_smem: 0
    accepts: {group: 1..8}
"""

# (registers, spill stores, spill loads, stack, static smem, barriers) per variant.
NUMBERS = {
    "ring.bf16.d64": (102, 0, 0, 0, 512, 1),
    "ring.fp16.d64": (96, 0, 0, 0, 512, 1),
    "ring.bf16.d256": (128, 136, 116, 112, 2048, 4),
    "ring.fp16.d256": (255, 0, 0, 0, 2048, 1),
    "merge.bf16": (32, 0, 0, 0, 2048, 1),
    "warped.bf16": (168, 0, 0, 0, 0, 1),
}


def log_text(name: str, arch: str) -> str:
    registers, stores, loads, stack, smem, barriers = NUMBERS[name]
    function = f"_Z{len(name.split('.')[0]) + 7}{name.split('.')[0]}_kerneli"
    used = f"Used {registers} registers, used {barriers} barriers" + (f", {smem} bytes smem" if smem else "")
    return (
        "ptxas info    : 0 bytes gmem\n"
        f"ptxas info    : Compiling entry function '{function}' for '{arch}'\n"
        f"ptxas info    : Function properties for {function}\n"
        f"    {stack} bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads\n"
        f"ptxas info    : {used}\n"
    )


@dataclass
class Screen:
    code: int
    out: str
    err: str


Run = Callable[..., Screen]


def make_runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in a project whose builds are written, not compiled."""
    (tmp_path / "flags.yaml").write_text(REGISTRY, encoding="utf-8")
    for kernel in ("ring", "merge", "warped"):
        (tmp_path / f"{kernel}.cu").touch()
    nvcc = Nvcc(Path("nvcc"), tmp_path, "13.0.88", "PATH", "", (), (), ("sm_80", "sm_90"), True, "")
    tools = Toolchain(nvcc, None, None, None, None, (), tmp_path)
    monkeypatch.setattr("sparkctl.toolchain.find_toolchain", lambda **_: tools)
    monkeypatch.setattr("sparkctl.workflows.regs.plan_build", written_plan(tmp_path))
    monkeypatch.setattr("sparkctl.workflows.regs.run_build", lambda plans, progress: None)
    monkeypatch.setattr("sparkctl.workflows.regs.raise_failures", lambda result: None)
    monkeypatch.setattr("sparkctl.build.archs.default_archs", lambda: (parse_arch("sm_90"),))
    monkeypatch.chdir(tmp_path)

    def call(*words: str, columns: int | None = None, before: list[str] | None = None) -> Screen:
        monkeypatch.setenv("COLUMNS", str(columns)) if columns else monkeypatch.delenv("COLUMNS", raising=False)
        capsys.readouterr()
        code = main([*(before or []), "regs", *words])
        captured = capsys.readouterr()
        return Screen(code, "\n".join(line.rstrip() for line in captured.out.splitlines()), captured.err)

    return call


def written_plan(root: Path) -> Callable[..., Any]:
    def plan(registry: Any, variants: Any, *, arch: Any, **_: Any) -> Any:
        folder = root / "build" / f"cuda-{arch}-release"
        (folder / "obj").mkdir(parents=True, exist_ok=True)
        for variant in variants:
            log = folder / "obj" / f"{variant.name}.ptxas"
            if not log.exists():
                log.write_text(log_text(variant.name, arch.name), encoding="utf-8")
        return SimpleNamespace(arch=arch, folder=folder, edges=())

    return plan
