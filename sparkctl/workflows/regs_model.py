"""The register report as data: one row per kernel and arch, whether it comes from the registry or from any file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from sparkctl.arch import Arch
from sparkctl.errors import WorkFailed
from sparkctl.registry import Variant
from sparkctl.resources import NextStep, Occupancy, ResourceUsage, next_step, occupancy, shorten
from sparkctl.workflows.tested import LastTest


@dataclass(frozen=True, slots=True)
class Subject:
    """What a row is about, beside what the compiler says. Threads and dynamic smem are of the launch."""

    name: str  # the variant's, with the function where it has several; a function's short name in other files
    kernel: str  # rows of one kernel, or of one file, stand together
    block_threads: int | None  # None where nobody says
    dynamic_smem_bytes: int = 0
    variant: Variant | None = None
    tested: LastTest | None = None


@dataclass(frozen=True, slots=True)
class KernelReport:
    """One entry function on one arch: what the compiler said, and what an SM makes of it."""

    subject: Subject
    arch: Arch
    usage: ResourceUsage
    registers: int  # per thread
    static_smem_bytes: int | None  # None where the linker decides
    occupancy: Occupancy | None  # None without a block size, or where registers and smem are not final
    next_step: NextStep | None
    calls: tuple[ResourceUsage, ...]  # device functions that stayed calls; their stack and spills are their own
    log: Path

    @property
    def name(self) -> str:
        return self.subject.name

    @property
    def kernel(self) -> str:
        return self.subject.kernel

    @property
    def variant(self) -> Variant | None:
        return self.subject.variant

    @property
    def block_threads(self) -> int | None:
        return self.subject.block_threads

    @property
    def dynamic_smem_bytes(self) -> int:
        """From the registry: the compiler does not know it."""
        return self.subject.dynamic_smem_bytes

    @property
    def tested(self) -> LastTest | None:
        return self.subject.tested

    @property
    def spills(self) -> bool:
        return self.usage.spills or any(call.spills for call in self.calls)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A selected variant that an arch cannot run."""

    variant: Variant
    arch: Arch
    reason: str


@dataclass(frozen=True, slots=True)
class Grid:
    """A launch of `blocks` CTAs on a GPU of `sm_count` SMs."""

    blocks: int
    gpu: str
    sm_count: int
    capability: str  # rows of other archs do not run there

    def waves(self, blocks_per_sm: int) -> float:
        """How often the whole GPU is filled; the fraction is how full the last wave is."""
        return self.blocks / (blocks_per_sm * self.sm_count)


@dataclass(frozen=True, slots=True)
class RegsReport:
    """Rows in registry order, each variant's archs together."""

    compiler: str  # or what else said so
    profile: str | None  # None for files, which no registry knows
    sets: Mapping[str, str]
    archs: tuple[Arch, ...]
    rows: tuple[KernelReport, ...]
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...] = ()
    grid: Grid | None = None


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A launch other than the registry's, for every row; None leaves a number as it is."""

    block_threads: int | None = None
    dynamic_smem_bytes: int | None = None
    grid: Grid | None = None

    def __str__(self) -> str:
        parts = [f"blocks of {self.block_threads} threads"] if self.block_threads is not None else []
        parts += [f"{self.dynamic_smem_bytes} bytes of dynamic smem"] if self.dynamic_smem_bytes is not None else []
        return " and ".join(parts)

    def apply(self, report: RegsReport) -> RegsReport:
        """The same code, launched so."""
        report = replace(report, grid=self.grid or report.grid)
        if self.block_threads is None and self.dynamic_smem_bytes is None:
            return report
        rows = []
        for row in report.rows:
            subject = replace(
                row.subject,
                block_threads=self.block_threads if self.block_threads is not None else row.block_threads,
                dynamic_smem_bytes=(
                    self.dynamic_smem_bytes if self.dynamic_smem_bytes is not None else row.dynamic_smem_bytes
                ),
            )
            rows.append(report_kernel(subject, row.arch, row.usage, row.calls, row.log))
        note = f"what if: {self}, not what is launched"
        return replace(report, rows=tuple(rows), notes=(*report.notes, note))


def subject_of(variant: Variant, tested: LastTest | None = None, function: ResourceUsage | None = None) -> Subject:
    """A variant of the registry; with the function that is meant where its source holds several kernels."""
    name = variant.name
    if function is not None:
        name += f" {shorten(function.demangled, dict(variant.values))}"
    return Subject(name, variant.kernel.name, variant.block_threads, variant.dynamic_smem_bytes, variant, tested)


def subject_in(source: str, usage: ResourceUsage, *, block_threads: int | None, dynamic_smem_bytes: int = 0) -> Subject:
    """A function of a file that no registry knows."""
    return Subject(shorten(usage.demangled), source, block_threads, dynamic_smem_bytes)


def report_kernel(
    subject: Subject, arch: Arch, usage: ResourceUsage, calls: tuple[ResourceUsage, ...], log: Path
) -> KernelReport:
    """Joins the compiler's numbers with the launch's. WorkFailed for a function without registers. Pure."""
    registers, static_smem = usage.registers, usage.static_smem_bytes
    if registers is None:
        raise WorkFailed(f"{log}: {usage.demangled} has no registers", hint="sparkctl build writes it again")
    threads, barriers = subject.block_threads, usage.barriers
    occupied = step = None
    if threads is not None and static_smem is not None and not usage.relocatable:
        smem = static_smem + subject.dynamic_smem_bytes
        occupied = occupancy(
            arch,
            threads=threads,
            registers=registers,
            static_smem=static_smem,
            dynamic_smem=subject.dynamic_smem_bytes,
            barriers=barriers,
        )
        step = next_step(arch, threads=threads, registers=registers, smem=smem, barriers=barriers)
    return KernelReport(subject, arch, usage, registers, static_smem, occupied, step, calls, log)
