"""Finds Nsight Compute's command line."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from sparkctl.errors import MissingTool

INSTALLED = Path("/opt/nvidia/nsight-compute")


def find_ncu(environ: Mapping[str, str], *, installed: Path = INSTALLED) -> Path:
    """SPARKCTL_NCU, else the one on PATH, in CUDA_HOME or CUDA_PATH, else the newest under /opt/nvidia/nsight-compute.

    MissingTool says where it looked; one that SPARKCTL_NCU names and that is not there is not passed over.
    """
    if chosen := environ.get("SPARKCTL_NCU"):
        path = Path(shutil.which(chosen, path=environ.get("PATH", "")) or chosen).expanduser().absolute()
        if _runs(path):
            return path
        raise MissingTool(f"SPARKCTL_NCU names {path}, which is no program", hint="correct it, or unset it")
    for path in _candidates(environ, installed):
        if _runs(path):
            return path
    homes = [f"{name} ({environ[name]})" if environ.get(name) else f"{name} (not set)" for name in _HOMES]
    raise MissingTool(
        f"no ncu (Nsight Compute): looked at SPARKCTL_NCU (not set), PATH, {', '.join(homes)} and {installed}/*/ncu",
        hint="it comes with the CUDA toolkit, or as the package nsight-compute; SPARKCTL_NCU names one elsewhere",
    )


_HOMES = ("CUDA_HOME", "CUDA_PATH")


def _candidates(environ: Mapping[str, str], installed: Path) -> Iterator[Path]:
    if found := shutil.which("ncu", path=environ.get("PATH", "")):
        yield Path(found).absolute()
    for home in (Path(environ[name]) for name in _HOMES if environ.get(name)):
        yield home / "bin" / "ncu"
        yield from _newest(home.glob("nsight-compute-*/ncu"))
    yield from _newest(installed.glob("*/ncu"))


def _newest(paths: Iterator[Path]) -> list[Path]:
    """By the version that the folder is named after: 2025.10 is newer than 2025.3."""
    return sorted(paths, key=lambda path: [int(n) for n in re.findall(r"\d+", path.parent.name)], reverse=True)


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
