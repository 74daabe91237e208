"""A tree compiled on trial: every source on every arch, with options added as the compiler asks for them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkctl.arch import Arch
from sparkctl.build import BuildPlan, Progress, default_build_root, plan_build, run_build
from sparkctl.build.helpers import is_relocatable
from sparkctl.errors import UsageError
from sparkctl.registry import Registry, select_variants
from sparkctl.registry.load import REGISTRY_NAME, parse_registry
from sparkctl.registry.tree import find_include_dirs
from sparkctl.toolchain import Toolchain
from sparkctl.workflows.init_model import FoundKernel, FoundTree, InitOptions
from sparkctl.workflows.init_text import registry_text

RDC = "-rdc=true"
MOST_ROUNDS = 30  # each adds one option or more
_HEADER = re.compile(r"fatal error: (?P<header>[^:\n]+): No such file or directory")
_EXTERN = re.compile(r"Unresolved extern function '(?P<name>[^']+)'")


@dataclass(frozen=True, slots=True)
class Trial:
    """The last round. `said` has the compiler's words by source and arch where it failed."""

    plans: Mapping[Arch, BuildPlan]
    names: Mapping[str, str]  # source -> edge
    options: tuple[str, ...]
    notes: tuple[str, ...]
    said: Mapping[tuple[str, Arch], str]

    def log(self, source: str, arch: Arch) -> Path:
        return self.plans[arch].folder / "obj" / f"{self.names[source]}.ptxas"

    def built(self, source: str, arch: Arch) -> Path:
        return self.log(source, arch).with_suffix(".o")


def try_tree(
    options: InitOptions,
    sources: Sequence[str],
    archs: Sequence[Arch],
    *,
    toolchain: Toolchain,
    environ: Mapping[str, str] = os.environ,
    progress: Progress | None = None,
) -> Trial:
    """Compile until nothing more can be found out. A header that one folder of the tree has adds that folder, a call
    into another source's device code adds -rdc=true."""
    names = {source: f"trial_{index}" for index, source in enumerate(sources)}
    given = (*(f"-I{include_text(folder, options.root)}" for folder in options.include), *options.nvcc)
    notes: list[str] = []
    for _ in range(MOST_ROUNDS):
        registry = _trial_registry(options.root, names, given, min(archs))
        plans = {arch: _plan(registry, arch, toolchain, environ) for arch in archs}
        result = run_build(list(plans.values()), progress=progress)
        by_edge = {name: source for source, name in names.items()}
        said = {
            (by_edge[edge.name], arch): edge.output or f"exit code {edge.exit_code}"
            for arch, outcome in zip(plans, result.plans, strict=True)
            for edge in outcome.failed
            if edge.name in by_edge
        }
        found = dict(_wanted(said, given, options.root))
        if not found:
            break
        given += tuple(found)
        notes += [f"{option}: {why}" for option, why in found.items()]
    return Trial(plans, names, given, (*notes, *_ambiguous(said, options.root)), said)


def include_text(folder: Path, root: Path) -> str:
    """As nvcc gets it, which runs in the root. UsageError for what is no folder."""
    if not folder.is_dir():
        raise UsageError(f"-I {folder}: {'not a folder' if folder.exists() else 'no such folder'}")
    whole = folder.resolve()
    return whole.relative_to(root).as_posix() if whole.is_relative_to(root) else str(whole)


def _trial_registry(root: Path, names: Mapping[str, str], options: tuple[str, ...], oldest: Arch) -> Registry:
    """Every source as a kernel that nothing links."""
    kernels = tuple(
        FoundKernel(name, source, ("tried",), oldest, None, link=False, why_alone="tried")
        for source, name in names.items()
    )
    return parse_registry(registry_text(FoundTree(None, options, kernels)), root / REGISTRY_NAME)


def _plan(registry: Registry, arch: Arch, toolchain: Toolchain, environ: Mapping[str, str]) -> BuildPlan:
    return plan_build(
        registry,
        select_variants(registry, arch=arch),
        arch=arch,
        backend="cuda",
        toolchain=toolchain,
        environ=environ,
        build_root=default_build_root(registry, environ),
    )


def _wanted(said: Mapping[tuple[str, Arch], str], given: Sequence[str], root: Path) -> Iterator[tuple[str, str]]:
    """Options that the compiler's words ask for, and why."""
    for (source, _), text in said.items():
        for match in _HEADER.finditer(text):
            folders = find_include_dirs(root, match["header"])
            option = f"-I{folders[0]}" if len(folders) == 1 else ""
            if option and option not in given:
                yield option, f"{source} includes {match['header']}"
        if _EXTERN.search(text) and not is_relocatable(given):
            yield RDC, f"{source} calls device code of another source"


def _ambiguous(said: Mapping[tuple[str, Arch], str], root: Path) -> list[str]:
    """Headers that lie in several folders, or in none."""
    notes = []
    for header in sorted({match["header"] for text in said.values() for match in _HEADER.finditer(text)}):
        folders = find_include_dirs(root, header)
        if len(folders) > 1:
            notes.append(f"{header} lies below {' and '.join(folders)}: name one of them with -I")
        elif not folders:
            notes.append(f"{header} is not in this tree: name its folder with -I")
    return notes
