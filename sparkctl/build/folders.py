"""Where a project's headers lie: in its own csrc, or, where its kernels are written with ours, in sparkctl's."""

from __future__ import annotations

from pathlib import Path

from sparkctl.build.paths import Paths
from sparkctl.errors import MissingTool, UsageError
from sparkctl.registry.model import Registry
from sparkctl.runtime.locate import PACKAGE


def own_csrc() -> Path:
    """The csrc that comes with sparkctl."""
    for folder in (PACKAGE / "project" / "csrc", PACKAGE.parent / "csrc"):
        if (folder / "emulator").is_dir():
            return folder
    raise MissingTool(f"{PACKAGE} holds no csrc: the emulator is missing", hint="install sparkctl again")


def cuda_includes(registry: Registry, paths: Paths) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Include folders ahead of the flags' own and behind them."""
    before = ("csrc",) if (registry.root / "csrc").is_dir() else ()
    return before, (paths.text(own_csrc()),) if registry.emulator else ()


def emulator_folder(registry: Registry) -> Path:
    """The csrc that holds the emulator. UsageError where the project's kernels are not written for it."""
    if registry.emulator:
        return own_csrc()
    if not (registry.root / "csrc").is_dir():
        raise UsageError(
            f"{registry.path.name}: its kernels are not for the emulator",
            hint="emulator: true, once they are written with common/launch.h (docs/own-kernels.md)",
        )
    return registry.root / "csrc"


def emulator_includes(registry: Registry, paths: Paths) -> tuple[str, ...]:
    """Include folders of the emulator's sources and of kernels for it."""
    folder = emulator_folder(registry)
    return paths.text(folder / "emulator"), paths.text(folder)
