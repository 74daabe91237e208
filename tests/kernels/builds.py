"""A library of a test module's own at the place where operators look: no other build changes it while tests run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from sparkctl.build import DEFAULT_ARCH, ensure_built
from sparkctl.ops import devices
from sparkctl.registry import find_project, load_registry, select_variants
from sparkctl.runtime import Library
from sparkctl.runtime.locate import BUILD_DIR_VARIABLE


@contextmanager
def default_build(folder: Path, kernels: Sequence[str], where: Mapping[str, list[str]]) -> Iterator[Library]:
    """The emulator's library with the chosen variants, which `backend="emulator"` runs."""
    registry = load_registry(find_project() / "flags.yaml")
    variants = select_variants(registry, kernels, arch=DEFAULT_ARCH, where=where)
    ensure_built(registry, variants, arch=DEFAULT_ARCH, backend="emulator", build_root=folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(BUILD_DIR_VARIABLE, str(folder))
        devices._library_folder.cache_clear()
        try:
            yield devices.default_library("cpu")
        finally:
            devices._library_folder.cache_clear()
