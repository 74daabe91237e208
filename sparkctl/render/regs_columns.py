"""The columns of the register report: what each cell says of a row, and which are loud."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sparkctl.resources import Occupancy, ResourceUsage, shorten
from sparkctl.workflows.regs_model import KernelReport, RegsReport

WORDS = {"warps": "warps", "registers": "regs", "shared_memory": "smem", "blocks": "blocks", "barriers": "bars"}
LETTERS = {"warps": "W", "registers": "R", "shared_memory": "S", "blocks": "B", "barriers": "Bar"}
FULL_NAMES = {name: name.replace("_", " ") for name in WORDS}
LOUD = "bold red"


@dataclass(frozen=True, slots=True)
class Column:
    """`header` from top to bottom; the unit is in it."""

    header: tuple[str, ...]
    cell: Callable[[KernelReport], str]
    loud: Callable[[KernelReport], bool] = lambda row: False
    right: bool = True


def function_name(row: KernelReport) -> str:
    return shorten(row.usage.demangled, dict(row.variant.values) if row.variant else None)


def known(value: object) -> str:
    """`–` for what is not known."""
    return "–" if value is None else str(value)


def percent_text(percent: float) -> str:
    """One decimal, halves up: 6.25 is 6.3."""
    return f"{int(percent * 10 + 0.5) / 10:.1f}"


def _spill(count: int | None) -> str:
    return f"!{count}" if count else known(count)


def _spill_pair(row: KernelReport) -> str:
    stores, loads = row.usage.spill_store_bytes, row.usage.spill_load_bytes
    return f"!{stores}/{loads}" if row.usage.spills else known(stores)


def _next_step(row: KernelReport) -> str:
    """`5: −6 regs`: five blocks for six registers fewer."""
    step = row.next_step
    if step is None:
        return "–"
    parts = [f"−{step.registers_fewer} regs"] if step.registers_fewer else []
    parts += [f"−{step.smem_bytes_fewer} B"] if step.smem_bytes_fewer else []
    return f"{step.blocks_per_sm}: {' '.join(parts)}"


def spill_bytes(usage: ResourceUsage) -> str:
    return f"{usage.spill_store_bytes}/{usage.spill_load_bytes} B"


def cannot_launch(row: KernelReport) -> bool:
    return row.occupancy is not None and row.occupancy.blocks_per_sm == 0


def _of_sm(value: Callable[[Occupancy], object]) -> Callable[[KernelReport], str]:
    """A cell of the occupancy; `–` where there is none."""
    return lambda row: "–" if row.occupancy is None else str(value(row.occupancy))


def _limiters(names: Mapping[str, str]) -> Callable[[KernelReport], str]:
    return _of_sm(lambda occupied: "+".join(names[name] for name in occupied.limiters))


def tests_cell(row: KernelReport) -> str:
    """`pass`: every case, with this code; `part`: some; `old`: of other code."""
    if row.tested is None:
        return "–"
    verdict = row.tested.verdict
    if verdict.failed:
        return f"!{verdict.failed}/{verdict.cases}"
    return "old" if not row.tested.current else "pass" if verdict.whole else "part"


THREADS = Column(("block", "threads"), lambda row: known(row.block_threads))
REGISTERS = Column(("regs",), lambda row: str(row.registers))
STORES = Column(("spill", "stores", "B"), lambda row: _spill(row.usage.spill_store_bytes), lambda row: row.usage.spills)
LOADS = Column(("spill", "loads", "B"), lambda row: _spill(row.usage.spill_load_bytes), lambda row: row.usage.spills)
SPILLS = Column(("spill", "st/ld", "B"), _spill_pair, lambda row: row.usage.spills)
STACK = Column(("stack", "B"), lambda row: str(row.usage.stack_bytes))
STATIC = Column(("static", "smem", "B"), lambda row: known(row.static_smem_bytes))
DYNAMIC = Column(("dynamic", "smem", "B"), lambda row: str(row.dynamic_smem_bytes))
BARRIERS = Column(("bar",), lambda row: known(row.usage.barriers))
BLOCKS = Column(("blocks", "/SM"), _of_sm(lambda occupied: occupied.blocks_per_sm), cannot_launch)
BLOCKS_SHORT = Column(("blk", "/SM"), BLOCKS.cell, cannot_launch)
WARPS = Column(("warps", "/SM"), _of_sm(lambda occupied: occupied.warps_per_sm))
WARPS_SHORT = Column(("wrp", "/SM"), WARPS.cell)
OCCUPANCY = Column(("occ", "%"), _of_sm(lambda occupied: percent_text(occupied.percent)))
LIMITERS = Column(("limiter",), _limiters(WORDS), right=False)
LIMITERS_SHORT = Column(("lim",), _limiters(LETTERS), right=False)
NEXT = Column(("next step",), _next_step, right=False)
TESTS = Column(("tests",), tests_cell, lambda row: tests_cell(row).startswith("!"), right=False)

_MEMORY = (STACK, STATIC, DYNAMIC, BARRIERS)
WIDE = (THREADS, REGISTERS, STORES, LOADS, *_MEMORY, BLOCKS, WARPS, OCCUPANCY, LIMITERS, NEXT)
NARROW = (REGISTERS, SPILLS, *_MEMORY, BLOCKS_SHORT, WARPS_SHORT, OCCUPANCY, LIMITERS_SHORT)
MIDDLE = (THREADS, *NARROW, NEXT)


def waves_of(row: KernelReport, report: RegsReport) -> float | None:
    """Of the report's grid; None without one, or where the kernel cannot launch."""
    if report.grid is None or row.occupancy is None or row.occupancy.blocks_per_sm == 0:
        return None
    if row.arch.capability != report.grid.capability:
        return None
    return round(report.grid.waves(row.occupancy.blocks_per_sm), 3)


def waves_column(report: RegsReport) -> Column:
    """`3.40`: three full waves and one of which 40 % is full."""

    def cell(row: KernelReport) -> str:
        waves = waves_of(row, report)
        return "–" if waves is None else f"{waves:.2f}"

    return Column(("waves",), cell)
