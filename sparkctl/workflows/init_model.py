"""What `sparkctl init` is asked for, and what it finds in a tree. Frozen data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sparkctl.arch import Arch

FAMILY = "own"  # not one of the operators' families


@dataclass(frozen=True, slots=True)
class InitOptions:
    """`include` and `nvcc` are added to what the tree is found to need; `archs` None are this machine's, else sm_90."""

    root: Path
    archs: tuple[Arch, ...] | None = None
    include: tuple[Path, ...] = ()
    nvcc: tuple[str, ...] = ()
    block_threads: int | None = None
    force: bool = False


@dataclass(frozen=True, slots=True)
class FoundKernel:
    """One source and the entry functions that the compiler reported for it."""

    name: str
    source: str
    functions: tuple[str, ...]  # as people write them, without parameters
    min_arch: Arch
    block_threads: int | None  # from __launch_bounds__ or --block; None where neither says
    link: bool = True
    why_alone: str = ""  # where it is not linked


@dataclass(frozen=True, slots=True)
class Rejected:
    """A source that is no part of the registry, why, and the compiler's words."""

    source: str
    why: str
    said: str = ""


@dataclass(frozen=True, slots=True)
class FoundTree:
    """What flags.yaml is written from."""

    archs: tuple[Arch, ...] | None  # None: left to each machine
    options: tuple[str, ...]  # nvcc's
    kernels: tuple[FoundKernel, ...]
    helpers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InitReport:
    """The outcome; `notes` say what was found out and taken, `link_error` what the linker said of the whole."""

    path: Path
    tree: FoundTree
    compiled_for: tuple[Arch, ...]
    rejected: tuple[Rejected, ...]
    notes: tuple[str, ...]
    link_error: str = ""

    @property
    def passed(self) -> bool:
        """Every source that should be there is, and all of it links."""
        return not self.link_error and not any(rejected.said for rejected in self.rejected)
