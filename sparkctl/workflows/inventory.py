"""What there is: kernels, their variants and test cases, and which libraries in the build folder hold them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from sparkctl.arch import Arch, parse_arch
from sparkctl.errors import SparkctlError
from sparkctl.registry import Kernel, Registry, Variant, runs_on, select_variants
from sparkctl.runtime.locate import build_root_of
from sparkctl.runtime.manifest import MANIFEST_NAME, Manifest, read_manifest
from sparkctl.testing.cases import cases_for, has_cases
from sparkctl.testing.model import Grid

GRIDS: tuple[Grid, ...] = get_args(Grid)


@dataclass(frozen=True, slots=True)
class Built:
    """One library's share of a kernel: the variants in it, of those that its arch can run."""

    folder: str
    backend: str
    arch: str
    profile: str
    flags: dict[str, str]
    variants: frozenset[str]
    possible: int


@dataclass(frozen=True, slots=True)
class KernelEntry:
    kernel: Kernel
    variants: tuple[Variant, ...]
    built: tuple[Built, ...]
    cases: Mapping[Grid, tuple[str, ...]]  # ids by grid; empty for a kernel without cases

    @property
    def case_grids(self) -> dict[str, list[Grid]]:
        """Each case id with the grids that hold it, the quick ones first."""
        grids: dict[str, list[Grid]] = {}
        for grid, ids in self.cases.items():
            for name in ids:
                grids.setdefault(name, []).append(grid)
        return grids


@dataclass(frozen=True, slots=True)
class Inventory:
    entries: tuple[KernelEntry, ...]
    unreadable: tuple[str, ...]  # a message for each manifest that could not be read


def take_inventory(registry: Registry, patterns: Sequence[str] = ()) -> Inventory:
    """Kernels that have a variant among the selected, in registry order. UsageError as select_variants."""
    selected = select_variants(registry, patterns)
    manifests, unreadable = _read_manifests(build_root_of(registry.root, os.environ), registry.root)
    entries = []
    for kernel in registry.kernels.values():
        variants = tuple(variant for variant in selected if variant.kernel.name == kernel.name)
        if variants:
            built = [_share(folder, arch, manifest, variants) for folder, arch, manifest in manifests]
            held = tuple(share for share in built if share.variants)
            entries.append(KernelEntry(kernel, variants, held, _case_ids(variants)))
    return Inventory(tuple(entries), tuple(unreadable))


def _case_ids(variants: Sequence[Variant]) -> dict[Grid, tuple[str, ...]]:
    """Ids of the cases of any of one kernel's variants."""
    if not has_cases(variants[0].kernel):
        return {}
    differing = {dict(variant.values).get("paged"): variant for variant in variants}.values()
    return {
        grid: tuple(dict.fromkeys(case.id for variant in differing for case in cases_for(variant, grid)))
        for grid in GRIDS
    }


def _read_manifests(build: Path, project: Path) -> tuple[list[tuple[str, Arch, Manifest]], list[str]]:
    """Folder (as seen from the project if it is inside), arch and manifest of each library; else a message."""
    manifests: list[tuple[str, Arch, Manifest]] = []
    unreadable: list[str] = []
    for path in sorted(build.glob(f"*/{MANIFEST_NAME}")):
        try:
            manifest = read_manifest(path.parent)
            folder = path.parent.relative_to(project) if path.is_relative_to(project) else path.parent
            manifests.append((folder.as_posix(), parse_arch(manifest.arch), manifest))
        except SparkctlError as error:
            unreadable.append(error.message)
    return manifests, unreadable


def _share(folder: str, arch: Arch, manifest: Manifest, variants: Sequence[Variant]) -> Built:
    inside = {variant.name for variant in manifest.variants}
    return Built(
        folder=folder,
        backend=manifest.backend,
        arch=manifest.arch,
        profile=manifest.profile,
        flags=manifest.flags,
        variants=frozenset(variant.name for variant in variants if variant.name in inside),
        possible=sum(runs_on(variant, arch) for variant in variants),
    )
