"""`bench --vs` and `bench --ab` of a compiled flag: arms that are the same call into another library.

`--vs` takes a git revision, which is exported and built beside this tree, or a library that is built already.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sparkctl.arch import Arch
from sparkctl.bench.ab import Ab
from sparkctl.bench.arms import READ_KERNEL
from sparkctl.build import Progress
from sparkctl.errors import SparkctlError, UsageError, WorkFailed
from sparkctl.registry import Registry, Variant, select_variants
from sparkctl.runtime import Library, load_library, read_manifest
from sparkctl.runtime.manifest import MANIFEST_NAME
from sparkctl.workflows.bench_ab import LIBRARY, REVISION
from sparkctl.workflows.bench_builds import open_arm_library
from sparkctl.workflows.bench_plan import BenchPlan
from sparkctl.workflows.bench_request import BenchRequest
from sparkctl.workflows.revision import find_commit, open_revision

HERE = "this tree"
SHORT = 8  # digits of a commit: with more a table of 80 columns breaks them
_NO_SUCH = "a commit, branch or tag, or the folder of a built library: --vs HEAD~1, --vs build/cuda-sm_90-release"

_A_REVISION = "a commit, branch or tag: --vs HEAD~1"

# The libraries of a plan's arms by their labels; an arm that is not among them runs from this tree's.
OpenLibraries = Callable[
    [Registry, BenchRequest, BenchPlan, Arch, Progress | None],
    Mapping[str, Library],
]


@dataclass(frozen=True, slots=True)
class Vs:
    """What --vs names: a commit, or the folder of a library."""

    name: str
    commit: str | None = None
    folder: Path | None = None

    @property
    def ab(self) -> Ab:
        """The other one first: above 1 this tree is faster."""
        if self.folder is not None:
            return Ab(LIBRARY, (self.folder.resolve().name, HERE))
        return Ab(REVISION, ((self.commit or self.name)[:SHORT], HERE))


def parse_vs(registry: Registry, name: str) -> Vs:
    """A path of a library or of its folder, else a git revision. UsageError for what is neither."""
    path = Path(name).expanduser()
    folder = path.parent if path.suffix == ".so" else path
    if (folder / MANIFEST_NAME).is_file() and path.exists():
        _read(name, folder)
        return Vs(name, folder=folder)
    if path.suffix == ".so" or name.startswith((".", os.sep)) or (path.is_dir() and os.sep in name):
        raise UsageError(f"--vs {name}: no {MANIFEST_NAME} lies beside a library there", hint=_NO_SUCH)
    try:
        return Vs(name, commit=find_commit(registry.root, name))
    except UsageError as error:
        raise UsageError(
            error.message.replace("revision or saved report", "revision or library"), hint=_NO_SUCH
        ) from error


def parse_revision(registry: Registry, name: str) -> Vs:
    """A git revision alone: of a built library the sources and registers are not known. UsageError for all else."""
    folder = Path(name).expanduser()
    if (folder / MANIFEST_NAME).is_file() or folder.suffix == ".so":
        raise UsageError(
            f"--vs {name}: a library, whose sources and registers are not known",
            hint=f"{_A_REVISION}; sparkctl bench --vs takes a library",
        )
    try:
        return Vs(name, commit=find_commit(registry.root, name))
    except UsageError as error:
        raise UsageError(error.message.replace("revision or saved report", "revision"), hint=_A_REVISION) from error


def _read(name: str, folder: Path) -> None:
    try:
        manifest = read_manifest(folder)
    except SparkctlError as error:
        raise UsageError(
            f"--vs {name}: {error.message}", hint="of another version of sparkctl: --vs a git revision builds it anew"
        ) from error
    if manifest.backend != "cuda":
        raise UsageError(f"--vs {name}: built for the {manifest.backend}, not for a GPU", hint=_NO_SUCH)


def open_arm_libraries(
    registry: Registry, request: BenchRequest, plan: BenchPlan, arch: Arch, progress: Progress | None
) -> Mapping[str, Library]:
    """Builds what is missing and loads. UsageError where an arm's library lacks what it is to run."""
    ab = request.ab
    if ab is None:
        return {}
    # The ceiling is read by this tree's library alone.
    variants = [variant for variant in plan.variants if variant.kernel.name != READ_KERNEL]
    if request.vs is not None:
        vs = parse_vs(registry, request.vs)
        opened = (
            _open_folder(vs, variants, arch)
            if vs.folder
            else _open_commit(registry, request, vs, variants, arch, progress)
        )
        return {ab.labels[0]: opened}
    flag = registry.flags.get(ab.name)
    if flag is None or flag.kind == "runtime":
        return {}
    return {
        label: open_arm_library(
            registry,
            variants,
            arch=arch,
            profile=request.profile,
            sets={**request.sets, ab.name: value},
            progress=progress,
        )
        for label, value in zip(ab.labels, ab.values, strict=True)
    }


def _open_folder(vs: Vs, variants: list[Variant], arch: Arch) -> Library:
    assert vs.folder is not None
    manifest = read_manifest(vs.folder)
    if manifest.arch.rstrip("af") != arch.name.rstrip("af"):
        raise UsageError(
            f"--vs {vs.name}: built for {manifest.arch}, the device here is {arch.name}",
            hint=f"build it with --arch {arch.name}",
        )
    held = {variant.name for variant in manifest.variants}
    if missing := [variant.name for variant in variants if variant.name not in held]:
        raise UsageError(
            f"--vs {vs.name}: it holds no {', '.join(missing)}",
            hint=f"in its tree: sparkctl build {' '.join(missing)} --arch {arch.name}",
        )
    return load_library(vs.folder)


def _open_commit(
    registry: Registry,
    request: BenchRequest,
    vs: Vs,
    variants: list[Variant],
    arch: Arch,
    progress: Progress | None,
) -> Library:
    revision = open_revision(registry, vs.name, os.environ)
    try:
        theirs = select_variants(revision.registry, [variant.name for variant in variants], arch=arch)
    except UsageError as error:
        raise UsageError(
            f"--vs {revision.label}: it lacks what is to be compared: {error.message}", hint="name a later revision"
        ) from error
    try:
        return open_arm_library(
            revision.registry,
            theirs,
            arch=arch,
            profile=request.profile,
            sets=request.sets,
            build_root=revision.build_root,
            progress=progress,
        )
    except WorkFailed as error:
        raise WorkFailed(f"{revision.label} does not build\n{error.message}", hint=error.hint) from error
    except SparkctlError as error:
        raise type(error)(f"--vs {revision.label}: {error.message}", hint=error.hint) from error
