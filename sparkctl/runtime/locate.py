"""Where operators look for a built library: the project's build folder, then the user's cache."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import sparkctl
from sparkctl.arch import Arch
from sparkctl.errors import MissingTool, UsageError
from sparkctl.registry import find_project
from sparkctl.runtime.manifest import MANIFEST_NAME, Backend
from sparkctl.toolchain.memory import user_cache_folder

BUILD_DIR_VARIABLE = "SPARKCTL_BUILD_DIR"
OTHER_BUILDS = ("CMakeCache.txt", "meson-info", "build.ninja", "Makefile")  # what CMake, Meson and make leave there
DEFAULT_EMULATOR_ARCH = "sm_90"
PACKAGE = Path(sparkctl.__file__).resolve().parent


def build_root_of(project: Path, environ: Mapping[str, str]) -> Path:
    """Where a project is built: $SPARKCTL_BUILD_DIR, else its `build`, or `build-sparkctl` where that is another build
    system's; in the user's cache for the wheel's own copy."""
    if chosen := environ.get(BUILD_DIR_VARIABLE):
        return Path(chosen).expanduser().absolute()
    if PACKAGE not in project.resolve().parents:
        taken = any((project / "build" / mark).exists() for mark in OTHER_BUILDS)
        return project / ("build-sparkctl" if taken else "build")
    digest = hashlib.blake2b(str(project).encode(), digest_size=6).hexdigest()
    return user_cache_folder(environ) / "builds" / digest


def build_roots() -> tuple[Path, ...]:
    """Where operators look for configuration folders: the build root of the project around the working folder, then of
    the one that this package belongs to or carries."""
    roots: list[Path] = []
    for start in (None, PACKAGE / "project", PACKAGE.parent):
        try:
            roots.append(build_root_of(find_project(start), os.environ))
        except UsageError:
            continue  # no project there
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
