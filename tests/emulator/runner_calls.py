"""What the tests of the standalone runner share: case files as they are and changed, and the runner's calls."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from programs import ROOT

from sparkctl.registry import Variant, load_registry, select_variants
from sparkctl.testing.case_file import CaseFile, TensorEntry, encode_case
from sparkctl.testing.export import export_case, recorder_for

REGISTRY = load_registry(ROOT / "flags.yaml")
RECORDER = recorder_for(REGISTRY)


@dataclass(frozen=True)
class Done:
    code: int
    out: list[str]
    err: list[str]


Run = Callable[..., Done]


def variant(name: str) -> Variant:
    (found,) = select_variants(REGISTRY, [name])
    return found


def exported(name: str, case: object, seed: int = 0) -> CaseFile:
    return export_case(RECORDER, variant(name), case, seed)


def runner_call(program: Path, cwd: Path) -> Run:
    def call(*words: str | Path) -> Done:
        command = ["env", "-i", "PATH=/usr/bin:/bin", str(program.resolve()), *map(str, words)]
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)
        return Done(done.returncode, done.stdout.splitlines(), done.stderr.splitlines())

    return call


def write(folder: Path, *files: CaseFile) -> Path:
    for file in files:
        path = folder / file.variant / f"{file.case}.case"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode_case(file))
    return folder


def changed(file: CaseFile, entry: TensorEntry, position: tuple[int, ...], value: float) -> CaseFile:
    """One element of a tensor of the file set to something else."""
    dtype, size = {"f64": ("<f8", 8), "i32": ("<i4", 4), "bf16": ("<u2", 2)}[entry.dtype]
    assert entry.block is not None
    block = bytearray(file.blocks[entry.block])
    at = entry.offset + size * sum(i * stride for i, stride in zip(position, entry.strides, strict=True))
    block[at : at + size] = np.array([value], dtype=dtype).tobytes()
    blocks = list(file.blocks)
    blocks[entry.block] = bytes(block)
    return replace(file, blocks=tuple(blocks))
