"""A library for each arm that is built in its own way, beside the one that operators use."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from sparkctl.arch import Arch
from sparkctl.build import Progress, default_build_root, ensure_built
from sparkctl.build.layout import ARMS
from sparkctl.registry import Registry, Variant
from sparkctl.runtime import Library, load_library


def arm_root(build_root: Path, sets: Mapping[str, str]) -> Path:
    """Where a library with these flags is built: a folder of its own, so that no other library is replaced."""
    text = "\n".join(f"{name}={value}" for name, value in sorted(sets.items()))
    return build_root / ARMS / hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def open_arm_library(
    registry: Registry,
    variants: Sequence[Variant],
    *,
    arch: Arch,
    profile: str,
    sets: Mapping[str, str],
    build_root: Path | None = None,
    progress: Progress | None = None,
) -> Library:
    """The variants built with `sets` and loaded; the object cache is shared with every other build."""
    folder = ensure_built(
        registry,
        variants,
        arch=arch,
        backend="cuda",
        profile=profile,
        sets=sets,
        build_root=arm_root(build_root or default_build_root(registry, os.environ), sets),
        progress=progress,
    )
    return load_library(folder)
