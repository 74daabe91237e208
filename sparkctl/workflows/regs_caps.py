"""`regs --max-regs`: real compiles under register caps, beside the one without; a cap beats __launch_bounds__."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sparkctl.arch.limits import WARP_THREADS
from sparkctl.build import Progress
from sparkctl.errors import UsageError
from sparkctl.registry import Registry, Variant, runs_on, select_variants
from sparkctl.toolchain import Toolchain
from sparkctl.workflows.regs import report_regs
from sparkctl.workflows.regs_inputs import FileOptions, report_files
from sparkctl.workflows.regs_model import KernelReport, RegsReport
from sparkctl.workflows.regs_vs import Selected

FLAG = "max_regs"
MOST = 255  # registers of a thread, on every arch
_REGISTERS = 65_536  # of a block, on every arch
FLAG_TEXT = """\
  max_regs:
    kind: ptxas
    type: int
    default: 0
    affects: ['*']
    options: {0: [], '*': ['-maxrregcount={value}', -override-directive-values]}
    doc: A cap on registers per thread that beats __launch_bounds__; 0 is none.
    reason: What-ifs by a real compile."""


@dataclass(frozen=True, slots=True)
class Capped:
    """A kernel under one cap. `asked` is None for the compile without; `cap` is less where a block could not launch."""

    row: KernelReport
    asked: int | None
    cap: int | None

    @property
    def clamped(self) -> bool:
        return self.cap != self.asked


@dataclass(frozen=True, slots=True)
class Sweep:
    """Each kernel and arch with all its caps together, the compile without one first."""

    report: RegsReport  # of the compile without
    rows: tuple[Capped, ...]


def sweep_registry(
    registry: Registry,
    selected: Selected,
    caps: Sequence[int],
    *,
    toolchain: Toolchain,
    environ: Mapping[str, str] = os.environ,
    progress: Progress | None = None,
) -> Sweep:
    """Variants of a project. UsageError where its flags.yaml has no such flag."""
    require_flag(registry)

    def report(patterns: Sequence[str], sets: Mapping[str, str]) -> RegsReport:
        return report_regs(
            registry,
            patterns,
            archs=selected.archs,
            where=selected.where,
            profile=selected.profile,
            sets={**selected.sets, **sets},
            toolchain=toolchain,
            environ=environ,
            progress=progress,
        )

    free = report(selected.patterns, {})
    variants = select_variants(registry, selected.patterns, where=selected.where)
    runnable = [variant for variant in variants if any(runs_on(variant, arch) for arch in selected.archs)]
    rows = [Capped(row, None, None) for row in free.rows]
    for asked in caps:
        by_cap: dict[int, list[Variant]] = {}
        for variant in runnable:
            by_cap.setdefault(clamp(asked, variant.block_threads), []).append(variant)
        for cap, group in by_cap.items():
            found = report([variant.name for variant in group], {FLAG: str(cap)})
            rows += [Capped(row, asked, cap) for row in found.rows]
    return Sweep(free, _in_order(rows))


def sweep_files(
    paths: Sequence[Path],
    options: FileOptions,
    caps: Sequence[int],
    *,
    toolchain: Toolchain,
    environ: Mapping[str, str] = os.environ,
) -> Sweep:
    """CUDA sources. UsageError for a log or an object, which cannot be compiled again."""
    for path in paths:
        if path.suffix not in (".cu", ".cuh"):
            raise UsageError(f"--max-regs compiles, and {path} is no CUDA source", hint="name the .cu file")
    free = report_files(paths, options, toolchain=toolchain, environ=environ)
    rows = [Capped(row, None, None) for row in free.rows]
    for asked in caps:
        cap = clamp(asked, options.block_threads)
        found = report_files(paths, replace(options, max_regs=cap), toolchain=toolchain, environ=environ)
        rows += [Capped(row, asked, cap) for row in found.rows]
    return Sweep(free, _in_order(rows))


def clamp(cap: int, block_threads: int | None) -> int:
    """The cap also raises: at most what lets one block launch; the cap itself where nobody knows its threads."""
    if block_threads is None:
        return cap
    threads = -(-block_threads // WARP_THREADS) * WARP_THREADS
    return min(cap, MOST, _REGISTERS // threads)


def parse_caps(text: str) -> tuple[int, ...]:
    """`64,96,128`; UsageError for what is no number of registers, or is there twice."""
    caps: list[int] = []
    for word in text.split(","):
        if not word.strip().isdecimal() or not 1 <= int(word.strip()[:9]) <= MOST:
            raise UsageError(f"--max-regs {text}: '{word.strip()}' is no cap", hint=f"1 to {MOST}, as in 64,96,128")
        if int(word) in caps:
            raise UsageError(f"--max-regs {text}: {int(word)} is written twice", hint="each cap once")
        caps.append(int(word))
    return tuple(caps)


def require_flag(registry: Registry) -> None:
    """UsageError with the lines to add."""
    flag = registry.flags.get(FLAG)
    if flag is None or flag.kind != "ptxas":
        raise UsageError(
            f"{registry.path.name} has no flag {FLAG} of kind ptxas", hint=f"add under flags:\n{FLAG_TEXT}"
        )


def _in_order(rows: Sequence[Capped]) -> tuple[Capped, ...]:
    keys = {key: index for index, key in enumerate(dict.fromkeys(_key(one) for one in rows))}
    return tuple(sorted(rows, key=lambda one: keys[_key(one)]))


def _key(one: Capped) -> tuple[str, str, str]:
    return one.row.kernel, one.row.name, one.row.arch.name
