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


def takes_own_csrc(registry: Registry) -> bool:
    """Whether the project compiles with sparkctl's csrc: its kernels are written with it, or called from Python."""
    return registry.emulator or _has_python_cases(registry)


def cuda_includes(registry: Registry, paths: Paths) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Include folders ahead of the flags' own and behind them."""
    before = ("csrc",) if (registry.root / "csrc").is_dir() else ()
    return before, (paths.text(own_csrc()),) if takes_own_csrc(registry) else ()


def host_includes(registry: Registry, paths: Paths, *, emulator: bool) -> tuple[str, ...]:
    """Include folders of what g++ compiles: bindings, the runner, and with `emulator` the kernels and itself."""
    if emulator:
        folder = emulator_folder(registry)
        return paths.text(folder / "emulator"), paths.text(folder)
    before, behind = cuda_includes(registry, paths)
    return *before, *behind


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


def support_sources(registry: Registry, group: str) -> tuple[Path, ...]:
    """The .cpp files of a group: `binding`, `emulator` or `runner`."""
    folder = registry.root / "csrc"
    if group == "emulator":
        folder = emulator_folder(registry)
    found = sorted((folder / ("bindings" if group == "binding" else group)).glob("*.cpp"))
    if group == "binding" and _has_python_cases(registry):
        found += [] if found else [own_csrc() / "bindings" / "variants.cpp"]
        found.append(own_csrc() / "bindings" / "own" / "call.cpp")
    return tuple(found)


def _has_python_cases(registry: Registry) -> bool:
    return any(kernel.cases_file is not None for kernel in registry.kernels.values())
