"""The register report for people: one table that picks its layout by width, notes below, details under -v."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sparkctl.arch import limits_for
from sparkctl.resources import NextStep, ResourceUsage, shorten
from sparkctl.workflows.regs import KernelReport, RegsReport

GAP = 2
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


def variant_label(row: KernelReport, report: RegsReport) -> str:
    """The variant; with its function where one source holds several kernels."""
    name = row.variant.name
    several = sum(1 for other in report.rows if other.log == row.log) > 1
    return f"{name} {function_name(row)}" if several else name


def function_name(row: KernelReport) -> str:
    return shorten(row.usage.demangled, dict(row.variant.values))


def percent_text(percent: float) -> str:
    """One decimal, halves up: 6.25 is 6.3."""
    return f"{int(percent * 10 + 0.5) / 10:.1f}"


def _spill(count: int) -> str:
    return f"!{count}" if count else "0"


def _spill_pair(row: KernelReport) -> str:
    stores, loads = row.usage.spill_store_bytes, row.usage.spill_load_bytes
    return f"!{stores}/{loads}" if row.usage.spills else "0"


def _next_step(row: KernelReport) -> str:
    """`5: −6 regs`: five blocks for six registers fewer."""
    step = row.next_step
    if step is None:
        return "–"
    parts = [f"−{step.registers_fewer} regs"] if step.registers_fewer else []
    parts += [f"−{step.smem_bytes_fewer} B"] if step.smem_bytes_fewer else []
    return f"{step.blocks_per_sm}: {' '.join(parts)}"


def _spill_bytes(usage: ResourceUsage) -> str:
    return f"{usage.spill_store_bytes}/{usage.spill_load_bytes} B"


def _cannot_launch(row: KernelReport) -> bool:
    return row.occupancy.blocks_per_sm == 0


_THREADS = Column(("block", "threads"), lambda row: str(row.variant.block_threads))
_REGISTERS = Column(("regs",), lambda row: str(row.registers))
_STORES = Column(
    ("spill", "stores", "B"), lambda row: _spill(row.usage.spill_store_bytes), lambda row: row.usage.spills
)
_LOADS = Column(("spill", "loads", "B"), lambda row: _spill(row.usage.spill_load_bytes), lambda row: row.usage.spills)
_SPILLS = Column(("spill", "st/ld", "B"), _spill_pair, lambda row: row.usage.spills)
_STACK = Column(("stack", "B"), lambda row: str(row.usage.stack_bytes))
_STATIC = Column(("static", "smem", "B"), lambda row: str(row.static_smem_bytes))
_DYNAMIC = Column(("dynamic", "smem", "B"), lambda row: str(row.dynamic_smem_bytes))
_BARRIERS = Column(("bar",), lambda row: "–" if row.usage.barriers is None else str(row.usage.barriers))
_BLOCKS = Column(("blocks", "/SM"), lambda row: str(row.occupancy.blocks_per_sm), _cannot_launch)
_BLOCKS_SHORT = Column(("blk", "/SM"), _BLOCKS.cell, _cannot_launch)
_WARPS = Column(("warps", "/SM"), lambda row: str(row.occupancy.warps_per_sm))
_WARPS_SHORT = Column(("wrp", "/SM"), _WARPS.cell)
_OCCUPANCY = Column(("occ", "%"), lambda row: percent_text(row.occupancy.percent))
_LIMITERS = Column(("limiter",), lambda row: "+".join(WORDS[name] for name in row.occupancy.limiters), right=False)
_LIMITERS_SHORT = Column(("lim",), lambda row: "+".join(LETTERS[name] for name in row.occupancy.limiters), right=False)
_NEXT = Column(("next step",), _next_step, right=False)

_MEMORY = (_STACK, _STATIC, _DYNAMIC, _BARRIERS)
WIDE = (_THREADS, _REGISTERS, _STORES, _LOADS, *_MEMORY, _BLOCKS, _WARPS, _OCCUPANCY, _LIMITERS, _NEXT)
NARROW = (_REGISTERS, _SPILLS, *_MEMORY, _BLOCKS_SHORT, _WARPS_SHORT, _OCCUPANCY, _LIMITERS_SHORT)
MIDDLE = (_THREADS, *NARROW, _NEXT)


def render_regs(report: RegsReport, *, width: int, verbose: bool = False) -> RenderableType:
    """The widest layout that fits `width`.

    A row per variant and arch; else kernels as headings with shorter rows; else a sentence per variant and arch.
    """
    flat, parts, letters = _flat_columns(report), list[RenderableType](), False
    if _needed_width(flat, report.rows) <= width:
        table = _table(flat, _widths(flat, report.rows))
        _add_rows(table, flat, report.rows)
        parts.append(table)
    else:
        layouts = [_grouped_columns(report, columns) for columns in (WIDE, MIDDLE, NARROW)]
        columns = next((one for one in layouts if _needed_width(one, report.rows) <= width), None)
        letters = columns is not None and _LIMITERS_SHORT in columns
        parts += _groups(report, columns) if columns else map(_sentence, report.rows)
    parts += [Text(), *_notes(report, letters=letters)]
    if verbose:
        parts += [detail for row in report.rows for detail in (Text(), _details(row, report))]
    return Group(*parts)


def _flat_columns(report: RegsReport) -> list[Column]:
    name = Column(("variant",), lambda row: variant_label(row, report), right=False)
    return [name, Column(("arch",), lambda row: row.arch.name, right=False), *WIDE]


def _grouped_columns(report: RegsReport, columns: Sequence[Column]) -> list[Column]:
    """Under a kernel's heading the first column is the rest of the variant's name, or with several archs the arch."""
    if len(report.archs) > 1:
        longest = max((_rest_of_name(row, report) for row in report.rows), key=cell_len)
        header = ("variant".ljust(cell_len(longest)), "  arch")
        return [Column(header, lambda row: f"  {row.arch.name}", right=False), *columns]
    return [Column(("variant",), lambda row: _rest_of_name(row, report), right=False), *columns]


def _rest_of_name(row: KernelReport, report: RegsReport) -> str:
    kernel = row.variant.kernel.name
    return variant_label(row, report).removeprefix(kernel).removeprefix(".") or kernel


def _groups(report: RegsReport, columns: list[Column]) -> Iterable[RenderableType]:
    """The header once, then a heading and rows per kernel, all columns in line."""
    widths = _widths(columns, report.rows)
    yield _table(columns, widths)
    for kernel, group in groupby(report.rows, key=lambda row: row.variant.kernel.name):
        rows = list(group)
        heading = [kernel, *([] if len(report.archs) > 1 else [rows[0].arch.name])]
        if _THREADS not in columns:
            threads = sorted({row.variant.block_threads for row in rows})
            heading.append(f"{' or '.join(map(str, threads))} threads")
        yield Text()
        yield Text("  ".join(heading), style="bold")
        table = _table(columns, widths, headed=False)
        for name, same in groupby(rows, key=lambda row: _rest_of_name(row, report)):
            if len(report.archs) > 1:
                table.add_row(Text(name))
            _add_rows(table, columns, same)
        yield table


def _table(columns: Sequence[Column], widths: Sequence[int], *, headed: bool = True) -> Table:
    """Every column has its width, so that tables line up and no number is ever cut."""
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold", show_header=headed)
    height = max(len(column.header) for column in columns)
    for column, width in zip(columns, widths, strict=True):
        table.add_column(
            "\n".join([""] * (height - len(column.header)) + list(column.header)),
            justify="right" if column.right else "left",
            width=width,
            no_wrap=True,
        )
    return table


def _add_rows(table: Table, columns: Sequence[Column], rows: Iterable[KernelReport]) -> None:
    for row in rows:
        table.add_row(*(Text(c.cell(row), style=LOUD if c.loud(row) else "") for c in columns))


def _sentence(row: KernelReport) -> Text:
    smem = f"{row.static_smem_bytes} + {row.dynamic_smem_bytes} B static + dynamic smem"
    facts = [f"{row.registers} regs", f"stack {row.usage.stack_bytes} B", smem, f"{_BARRIERS.cell(row)} bar"]
    if row.usage.spills:
        facts.insert(1, f"!spills {_spill_bytes(row.usage)}")
    percent = percent_text(row.occupancy.percent)
    facts.append(f"{row.occupancy.blocks_per_sm} blocks/SM, {row.occupancy.warps_per_sm} warps/SM, {percent} %")
    facts.append(f"limited by {_LIMITERS.cell(row)}")
    name = Text(f"{row.variant.name} {row.arch.name}", style="bold")
    return Text.assemble(name, "\n", Text(", ".join(facts), style=LOUD if row.usage.spills else ""))


def _widths(columns: Sequence[Column], rows: Sequence[KernelReport]) -> list[int]:
    return [max(cell_len(text) for text in (*c.header, *map(c.cell, rows))) for c in columns]


def _needed_width(columns: Sequence[Column], rows: Sequence[KernelReport]) -> int:
    return sum(_widths(columns, rows)) + GAP * (len(columns) - 1)


def _notes(report: RegsReport, *, letters: bool) -> Iterable[Text]:
    spilling = [row for row in report.rows if row.spills]
    if spilling:
        yield Text(f"! registers spilled to local memory: {len(spilling)} of {len(report.rows)} kernels", style=LOUD)
    for row in report.rows:
        for call in row.calls:
            if call.spills:
                what = f"{shorten(call.demangled)}, which spills {_spill_bytes(call)}"
                yield Text(f"! {row.variant.name} ({row.arch.name}) calls {what}", style=LOUD)
    for row in filter(_cannot_launch, report.rows):
        limiters = " and ".join(FULL_NAMES[name] for name in row.occupancy.limiters)
        yield Text(f"! {row.variant.name} cannot launch on {row.arch.name}: too many {limiters}", style=LOUD)
    for arch in report.archs:
        missing = [item for item in report.left_out if item.arch == arch]
        if missing:
            first = missing[0]
            count = "" if len(missing) == 1 else f"{len(missing)} variants, such as "
            yield Text(f"{arch.name} leaves out {count}{first.variant.name}: {first.reason}")
    if letters:
        yield Text("lim: " + ", ".join(f"{LETTERS[name]} {FULL_NAMES[name]}" for name in LETTERS), style="dim")
    yield Text(
        "static smem is the compiler's, dynamic smem flags.yaml's; occupancy counts both and 1024 B reserved per block",
        style="dim",
    )
    yield Text(f"{report.compiler}, profile {report.profile}{_sets(report)}", style="dim")


def _sets(report: RegsReport) -> str:
    return "".join(f", {name}={value}" for name, value in report.sets.items())


def _details(row: KernelReport, report: RegsReport) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), show_header=False, title_justify="left")
    table.title = Text(f"{variant_label(row, report)}  {row.arch.name}", style="bold")
    table.add_column(min_width=11)
    table.add_column(overflow="fold")
    limits = ", ".join(f"{FULL_NAMES[name]} {'–' if c is None else c}" for name, c in row.occupancy.limits.items())
    facts = [
        ("function", function_name(row)),
        ("mangled", row.usage.function),
        ("blocks/SM", f"{row.occupancy.blocks_per_sm} of: {limits}"),
        ("warps/SM", f"{row.occupancy.warps_per_sm} of {limits_for(row.arch).warps_per_sm}"),
        ("next step", describe_step(row.next_step)),
        *(("calls", f"{shorten(c.demangled)}: stack {c.stack_bytes} B, spills {_spill_bytes(c)}") for c in row.calls),
        ("log", str(row.log.relative_to(Path.cwd()) if row.log.is_relative_to(Path.cwd()) else row.log)),
    ]
    for name, value in facts:
        table.add_row(Text(f"  {name}"), Text(value))
    return table


def describe_step(step: NextStep | None) -> str:
    """`5 blocks/SM (41.7 %) at 96 registers, 6 fewer`."""
    if step is None:
        return "none by fewer registers or less shared memory"
    parts = [f"{step.registers} registers, {step.registers_fewer} fewer"] if step.registers else []
    parts += [f"{step.smem_bytes} bytes of smem, {step.smem_bytes_fewer} fewer"] if step.smem_bytes_fewer else []
    return f"{step.blocks_per_sm} blocks/SM ({percent_text(step.percent)} %) at {' and '.join(parts)}"
