"""Where operators look for a built library: the project's build folder, then the user's cache."""

from __future__ import annotations

import os
from pathlib import Path

from sparkctl.arch import Arch
from sparkctl.errors import MissingTool, UsageError
from sparkctl.registry import find_project
from sparkctl.runtime.manifest import MANIFEST_NAME, Backend

BUILD_DIR_VARIABLE = "SPARKCTL_BUILD_DIR"
DEFAULT_EMULATOR_ARCH = "sm_90"


def build_roots() -> tuple[Path, ...]:
    """Where configuration folders lie, first wins: $SPARKCTL_BUILD_DIR, the project's build, the user's cache."""
    import platformdirs

    roots: list[Path] = []
    if chosen := os.environ.get(BUILD_DIR_VARIABLE):
        roots.append(Path(chosen))
    for start in (None, Path(__file__).parent):
        try:
            roots.append(find_project(start) / "build")
        except UsageError:
            continue  # not inside a project
    roots.append(Path(platformdirs.user_cache_dir("sparkctl")) / "build")
    return tuple(dict.fromkeys(roots))


def find_library_folder(backend: Backend, arch: Arch | None = None, *, profile: str = "release") -> Path:
    """The folder of the library for a backend and arch (the emulator's default arch is sm_90).

    Raises MissingTool naming the `sparkctl build` command when there is none: operators never compile.
    """
    names = [arch.name] if arch is not None else [DEFAULT_EMULATOR_ARCH]
    if arch is not None and not arch.suffix:
        names.insert(0, f"{arch.name}a")  # a library for the arch-specific features runs on that arch too
    for root in build_roots():
        for name in names:
            folder = root / f"{backend}-{name}-{profile}"
            if (folder / MANIFEST_NAME).exists():
                return folder
    command = f"sparkctl build --backend {backend} --arch {names[-1]}"
    raise MissingTool(f"no library for backend {backend}, arch {names[-1]}, profile {profile}", hint=command)
