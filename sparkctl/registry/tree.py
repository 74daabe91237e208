"""The CUDA sources and headers of a folder, without what other tools put beside them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

SOURCE = ".cu"
HEADERS = (".h", ".cuh", ".hpp", ".hh", ".hxx", ".inl", ".inc", "")  # CUTLASS has .inl, C++ libraries none at all
_PASSED_OVER = ("build", "node_modules", "__pycache__", "CMakeFiles")
_MARKS = ("pyvenv.cfg", "CACHEDIR.TAG", "flags.yaml")  # a virtual environment, a cache, a project of its own


def find_sources(root: Path) -> tuple[str, ...]:
    """Every `.cu` at or below `root`, relative to it, in order; build folders and hidden ones are passed over."""
    return tuple(sorted(_relative(path, root) for path in _walk(root) if path.suffix == SOURCE))


def find_files(root: Path) -> tuple[str, ...]:
    """Every file at or below `root`, as find_sources."""
    return tuple(sorted(_relative(path, root) for path in _walk(root)))


def find_include_dirs(root: Path, header: str) -> tuple[str, ...]:
    """The folders at or below `root` from which `#include "header"` works, relative to it."""
    parts = Path(header).parts
    if not parts or ".." in parts or Path(header).is_absolute():
        return ()
    found = (path for path in _walk(root) if path.name == parts[-1] and path.suffix in HEADERS)
    folders = (Path(*path.parts[: -len(parts)]) for path in found if path.parts[-len(parts) :] == parts)
    return tuple(sorted({_relative(folder, root) for folder in folders if folder.is_relative_to(root)}))


def _walk(root: Path) -> Iterator[Path]:
    for folder, names, files in os.walk(root):
        here = Path(folder)
        if here != root and any(mark in files for mark in _MARKS):
            names.clear()
            continue
        names[:] = sorted(name for name in names if not name.startswith((".", "build-")) and name not in _PASSED_OVER)
        yield from (here / name for name in files)


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()
