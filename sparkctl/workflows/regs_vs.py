"""`regs --vs`: the report of this tree beside that of another revision, of a saved report, or of what is pinned."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkctl.arch import Arch
from sparkctl.build import Progress, default_build_root
from sparkctl.build.state import write_text
from sparkctl.errors import SparkctlError, UsageError, WorkFailed
from sparkctl.registry import Registry, select_variants
from sparkctl.resources import Baseline, Change, Numbers, compare, decode_baseline, encode_baseline
from sparkctl.resources.change import Key
from sparkctl.toolchain import Toolchain
from sparkctl.workflows.regs import report_regs
from sparkctl.workflows.regs_model import KernelReport, RegsReport
from sparkctl.workflows.regs_pins import PINNED, read_pins
from sparkctl.workflows.revision import Revision, find_commit, open_revision

_NAME = re.compile(r"[\w.-]{1,80}")


@dataclass(frozen=True, slots=True)
class Selected:
    """What was asked for, to be asked of another revision too."""

    patterns: Sequence[str]
    archs: Sequence[Arch]
    where: Mapping[str, Sequence[str]]
    profile: str
    sets: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RegsComparison:
    """`old` says what it is: a revision, a saved report, the pinned ones. `notes` say what could not be compared."""

    old: str
    old_compiler: str
    report: RegsReport
    changes: tuple[Change, ...]
    notes: tuple[str, ...] = ()

    @property
    def changed(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.verdict != "same")


def numbers_of(report: RegsReport) -> dict[Key, Numbers]:
    """By name and arch."""
    return {(row.name, row.arch.name): row_numbers(row) for row in report.rows}


def row_numbers(row: KernelReport) -> Numbers:
    usage, occupied = row.usage, row.occupancy
    return Numbers(
        registers=row.registers,
        spill_store_bytes=usage.spill_store_bytes,
        spill_load_bytes=usage.spill_load_bytes,
        stack_bytes=usage.stack_bytes,
        static_smem_bytes=row.static_smem_bytes,
        dynamic_smem_bytes=row.dynamic_smem_bytes,
        barriers=usage.barriers,
        blocks_per_sm=occupied.blocks_per_sm if occupied else None,
        warps_per_sm=occupied.warps_per_sm if occupied else None,
        limiters=occupied.limiters if occupied else None,
    )


def compare_regs(
    registry: Registry,
    report: RegsReport,
    selected: Selected,
    name: str,
    *,
    toolchain: Toolchain,
    environ: Mapping[str, str],
    progress: Progress | None = None,
) -> RegsComparison:
    """`name`: `pinned`, else a saved report of that name, else a git revision, which is built if need be."""
    new = numbers_of(report)
    if name == PINNED:
        pins, notes = read_pins(registry, report)
        old = {key: numbers for key, numbers in pins.items() if key in new}
        return RegsComparison("the pinned reports", report.compiler, report, compare(old, new), notes)
    saved = saved_folder(registry, name, environ) if _NAME.fullmatch(name) else None
    if saved is not None and saved.is_dir():
        compiler, old, notes = read_saved(saved, report)
        return RegsComparison(f"{name}, saved", compiler, report, compare(old, new), notes)
    revision = open_revision(registry, name, environ)
    before, notes = report_revision(revision, selected, toolchain=toolchain, environ=environ, progress=progress)
    if before is None:
        return RegsComparison(revision.label, report.compiler, report, compare({}, new), notes)
    return RegsComparison(revision.label, before.compiler, report, compare(numbers_of(before), new), notes)


def report_revision(
    revision: Revision,
    selected: Selected,
    *,
    toolchain: Toolchain,
    environ: Mapping[str, str],
    progress: Progress | None = None,
) -> tuple[RegsReport | None, tuple[str, ...]]:
    """The revision's report of what was asked for, None where it has nothing of it, and notes on what it lacks."""
    patterns, notes = list[str](), list[str]()
    for pattern in selected.patterns:
        try:
            select_variants(revision.registry, [pattern], where=selected.where)
            patterns.append(pattern)
        except UsageError as error:
            notes.append(f"{revision.label}: {error.message}")
    if selected.patterns and not patterns:
        return None, tuple(notes)
    try:
        report = report_regs(
            revision.registry,
            patterns,
            archs=selected.archs,
            where=selected.where,
            profile=selected.profile,
            sets=selected.sets,
            toolchain=toolchain,
            environ=environ,
            build_root=revision.build_root,
            progress=progress,
        )
    except WorkFailed as error:
        raise WorkFailed(f"{revision.label} does not build\n{error.message}", hint=error.hint) from error
    except SparkctlError as error:
        raise type(error)(f"{revision.label}: {error.message}", hint=error.hint) from error
    return report, tuple(notes)


def save_report(registry: Registry, report: RegsReport, name: str, environ: Mapping[str, str]) -> Path:
    """Keep the report under a name for `--vs NAME`, in the build folder; UsageError for a name that is none."""
    folder = saved_folder(registry, name, environ)
    by_arch: dict[str, dict[str, Numbers]] = {arch.name: {} for arch in report.archs}
    for (variant, arch), numbers in numbers_of(report).items():
        by_arch[arch][variant] = numbers
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("*.json"):
            if old.stem not in by_arch:
                old.unlink()
        for arch, pins in by_arch.items():
            write_text(folder / f"{arch}.json", encode_baseline(Baseline(arch, {describe_build(report): pins})))
    except OSError as error:
        raise WorkFailed(f"{folder}: {error.strerror}", hint="is the build folder read-only?") from error
    return folder


def check_name(registry: Registry, name: str) -> None:
    """UsageError for a name that no report can be saved under, or that is a revision's already."""
    if not _NAME.fullmatch(name) or name.startswith((".", "-")) or name == PINNED:
        raise UsageError(f"--save {name}: not a name", hint="letters, digits, . _ and -, not 'pinned'")
    try:
        find_commit(registry.root, name)
    except SparkctlError:
        return
    raise UsageError(f"--save {name}: a git revision has this name", hint="another one: --vs would not know which")


def saved_folder(registry: Registry, name: str, environ: Mapping[str, str]) -> Path:
    return default_build_root(registry, environ) / "regs" / name


def read_saved(folder: Path, report: RegsReport) -> tuple[str, dict[Key, Numbers], tuple[str, ...]]:
    """(what it was built with, the numbers of the report's kernels, notes on archs that were not saved)."""
    found, notes, compilers = dict[Key, Numbers](), list[str](), list[str]()
    wanted = numbers_of(report)
    for arch in report.archs:
        path = folder / f"{arch.name}.json"
        if not path.is_file():
            notes.append(f"{folder.name} has nothing of {arch.name}")
            continue
        baseline = decode_baseline(path.read_text(encoding="utf-8", errors="replace"), str(path))
        for compiler, pins in baseline.compilers.items():
            compilers.append(compiler)
            found |= {(name, arch.name): n for name, n in pins.items() if (name, arch.name) in wanted}
    return ", ".join(dict.fromkeys(compilers)) or "nothing", found, tuple(notes)


def describe_build(report: RegsReport) -> str:
    """`nvcc 13.0.88, profile release, min_blocks=4`."""
    return ", ".join([report.compiler, f"profile {report.profile}", *(f"{n}={v}" for n, v in report.sets.items())])
