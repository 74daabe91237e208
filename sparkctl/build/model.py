"""A build as frozen data: its edges, and what a run of it found and did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sparkctl.arch import Arch
from sparkctl.build.paths import Paths
from sparkctl.registry.model import Registry, Variant
from sparkctl.runtime.manifest import Backend
from sparkctl.toolchain import CompilerChoice, Toolchain

Status = Literal["built", "cached", "up to date", "failed", "not run"]


@dataclass(frozen=True, slots=True)
class Edge:
    """One compile. Paths are as the compiler gets them: relative to the project root where they lie inside it."""

    name: str  # the variant's name, or "binding/decode", "emulator/fiber"
    variant: Variant | None
    source: str
    output: str
    log: str | None  # where stderr goes: the ptxas log; None: stderr is shown
    argv: tuple[str, ...]  # without the cache's launcher

    @property
    def group(self) -> str:
        """`binding`, `emulator`, `helper`, `program` or `runner`; empty for a variant."""
        return "" if self.variant else self.name.rpartition("/")[0]

    @property
    def outputs(self) -> tuple[str, ...]:
        """All files that the edge must leave behind."""
        return (self.output,) if self.log is None else (self.output, self.log)

    @property
    def depfile(self) -> str:
        """Where the compiler lists the headers it read."""
        return f"{self.output}.d"

    @property
    def stats(self) -> str:
        """Where ccache says whether it was a hit."""
        return f"{self.output}.stats"


@dataclass(frozen=True, slots=True)
class Link:
    """One link: of the library, or of the standalone test runner. Both take every variant."""

    name: str
    output: str
    argv: tuple[str, ...]  # `{out}` and `@{objects}` stand for the output and its response file
    groups: tuple[str, ...]  # of the edges that it takes beside the variants

    @property
    def is_runner(self) -> bool:
        """Whether it is a program that runs cases."""
        return "runner" in self.groups

    @property
    def file_name(self) -> str:
        """The output's."""
        return Path(self.output).name

    def objects(self, edges: Iterable[Edge]) -> list[str]:
        """What is linked, in the order of the command: the emulator ahead of kernels that may be instrumented, since of
        an inline function that both hold the linker keeps the first."""
        return [e.output for e in sorted(self.taken(edges), key=lambda e: (e.group != "emulator", e.output))]

    def taken(self, edges: Iterable[Edge]) -> Iterator[Edge]:
        """Its edges."""
        kept = (edge for edge in edges if edge.variant is None or edge.variant.kernel.link)
        return (edge for edge in kept if not edge.group or edge.group in self.groups)


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """One library for one backend, arch and profile. Pure: nothing has been looked at on disk."""

    registry: Registry
    arch: Arch
    backend: Backend
    profile: str
    sets: Mapping[str, str]  # flag values from --set and the environment
    toolchain: Toolchain
    environ: Mapping[str, str]
    folder: Path
    build_root: Path
    edges: tuple[Edge, ...]  # the selected variants, then bindings, the emulator's runtime and the runner
    spare: Mapping[str, Edge]  # every other variant of this arch by name: linked if it is built and still valid
    links: tuple[Link, ...]  # of the library, then of the runner if it was asked for; sanitized: of the runner alone
    paths: Paths
    compiler: str  # for people
    compiler_identity: str

    @property
    def root(self) -> Path:
        """The folder that commands run in."""
        return self.registry.root

    @property
    def library(self) -> str:
        """The path of the library, or of what stands for it."""
        return self.links[0].output

    @property
    def runner(self) -> str | None:
        """The path of the standalone test runner, if it is part of the plan."""
        return next((link.output for link in self.links if link.is_runner), None)

    @property
    def has_line_info(self) -> bool:
        """Whether objects hold the folders of this clone, so that other clones must not get them from the cache."""
        words = [word for edge in self.edges for word in edge.argv]
        return any(word in ("-lineinfo", "--generate-line-info", "-G", "--device-debug") for word in words)

    @property
    def label(self) -> str:
        """`cuda-sm_90-release`: the folder's name."""
        return self.folder.name


@dataclass(frozen=True, slots=True)
class EdgeResult:
    """What happened to one edge. Times in seconds of wall clock, memory in bytes of resident set.

    The exit code of a failed edge is the shell's: above 128 a signal killed the compiler.
    """

    name: str
    status: Status
    time_s: float | None = None
    saved_s: float | None = None  # by the cache: the last real compile less this hit
    peak_bytes: int | None = None
    reason: str | None = None  # why it ran
    command: str | None = None  # of a failed edge, as its output and exit code
    output: str | None = None
    exit_code: int | None = None
    is_variant: bool = True


@dataclass(frozen=True, slots=True)
class PlanResult:
    """One library's build."""

    label: str
    folder: Path
    compiler: CompilerChoice
    library: Path
    runner: Path | None
    edges: tuple[EdgeResult, ...]
    linked: bool
    wall_s: float
    kept: tuple[str, ...] = ()  # built earlier, not selected now, still valid and in the library
    dropped: tuple[str, ...] = ()  # built earlier, not selected now, out of date and no longer in the library
    warnings: tuple[str, ...] = ()

    @property
    def failed(self) -> tuple[EdgeResult, ...]:
        """The edges that broke."""
        return tuple(edge for edge in self.edges if edge.status == "failed")


@dataclass(frozen=True, slots=True)
class BuildResult:
    """A whole `sparkctl build`."""

    plans: tuple[PlanResult, ...]
    jobs: int
    jobs_reason: str
    notes: tuple[str, ...] = field(default=())  # said once: no cache, and the like

    @property
    def ok(self) -> bool:
        """Whether every edge that was asked for is built."""
        return not any(plan.failed for plan in self.plans)
