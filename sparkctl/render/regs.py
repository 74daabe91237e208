"""The register report for people: one table that picks its layout by width, notes below, details under -v."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sparkctl.arch import limits_for
from sparkctl.render.regs_columns import (
    BARRIERS,
    FULL_NAMES,
    LETTERS,
    LIMITERS,
    LIMITERS_SHORT,
    LOUD,
    MIDDLE,
    NARROW,
    TESTS,
    THREADS,
    WIDE,
    Column,
    cannot_launch,
    function_name,
    known,
    percent_text,
    spill_bytes,
    tests_cell,
    waves_column,
    waves_of,
)
from sparkctl.resources import NextStep, shorten
from sparkctl.workflows.regs_model import KernelReport, RegsReport
from sparkctl.workflows.tested import LastTest

GAP = 2


def render_regs(report: RegsReport, *, width: int, verbose: bool = False) -> RenderableType:
    """The widest layout that fits `width`.

    A row per variant and arch; else kernels as headings with shorter rows; else a sentence per variant and arch.
    """
    tests = [waves_column(report)] if report.grid else []
    tests += [TESTS] if any(row.tested for row in report.rows) else []
    flat, parts, letters = [*_flat_columns(), *tests], list[RenderableType](), False
    if _needed_width(flat, report.rows) <= width:
        widths = _widths(flat, report.rows)
        parts += [_header(flat, widths), _lines(_row_line(flat, widths, row) for row in report.rows)]
    else:
        choices = ((*WIDE, *tests), WIDE, (*MIDDLE, *tests), MIDDLE, NARROW)
        layouts = [_grouped_columns(report, columns) for columns in choices]
        columns = next((one for one in layouts if _needed_width(one, report.rows) <= width), None)
        letters = columns is not None and LIMITERS_SHORT in columns
        parts += _groups(report, columns) if columns else [_sentence(row, report) for row in report.rows]
    parts += [Text(), *_notes(report, letters=letters)]
    if verbose:
        parts += [detail for row in report.rows for detail in (Text(), _details(row))]
    return Group(*parts)


def _flat_columns() -> list[Column]:
    name = Column(("variant",), lambda row: row.name, right=False)
    return [name, Column(("arch",), lambda row: row.arch.name, right=False), *WIDE]


def _grouped_columns(report: RegsReport, columns: Sequence[Column]) -> list[Column]:
    """Under a kernel's heading the first column is the rest of the variant's name, or with several archs the arch."""
    if len(report.archs) > 1:
        longest = max(map(_rest_of_name, report.rows), key=cell_len)
        header = ("variant".ljust(cell_len(longest)), "  arch")
        return [Column(header, lambda row: f"  {row.arch.name}", right=False), *columns]
    return [Column(("variant",), _rest_of_name, right=False), *columns]


def _rest_of_name(row: KernelReport) -> str:
    return row.name.removeprefix(row.kernel).removeprefix(".") or row.kernel


def _groups(report: RegsReport, columns: list[Column]) -> Iterable[RenderableType]:
    """The header once, then a heading and rows per kernel, all columns in line."""
    widths = _widths(columns, report.rows)
    yield _header(columns, widths)
    for kernel, group in groupby(report.rows, key=lambda row: row.kernel):
        rows = list(group)
        heading = [kernel, *([] if len(report.archs) > 1 else [rows[0].arch.name])]
        if THREADS not in columns:
            threads = sorted({row.block_threads for row in rows if row.block_threads is not None})
            heading += [f"{' or '.join(map(str, threads))} threads"] if threads else []
        yield Text()
        yield Text("  ".join(heading), style="bold")
        lines: list[Text] = []
        for name, same in groupby(rows, key=_rest_of_name):
            lines += [Text(name)] if len(report.archs) > 1 else []
            lines += [_row_line(columns, widths, row) for row in same]
        yield _lines(lines)


def _header(columns: Sequence[Column], widths: Sequence[int]) -> Text:
    """Every column has its width, so that all lines stand below each other and no number is ever cut."""
    height = max(len(column.header) for column in columns)
    lines = []
    for index in range(height):
        words = ((*[""] * (height - len(column.header)), *column.header)[index] for column in columns)
        lines.append(Text(_padded(columns, widths, list(words)).rstrip(), style="bold"))
    return _lines(lines)


def _row_line(columns: Sequence[Column], widths: Sequence[int], row: KernelReport) -> Text:
    cells = [column.cell(row) for column in columns]
    loud = [column.loud(row) for column in columns]
    if not any(loud):
        return Text(_padded(columns, widths, cells).rstrip())
    line = Text()
    for column, width, cell, is_loud in zip(columns, widths, cells, loud, strict=True):
        gap = " " * (width - cell_len(cell))
        line.append(gap if column.right else "").append(cell, style=LOUD if is_loud else "")
        line.append(" " * GAP if column.right else gap + " " * GAP)
    line.rstrip()
    return line


def _padded(columns: Sequence[Column], widths: Sequence[int], cells: Sequence[str]) -> str:
    parts = []
    for column, width, cell in zip(columns, widths, cells, strict=True):
        gap = " " * (width - cell_len(cell))
        parts.append(gap + cell if column.right else cell + gap)
    return (" " * GAP).join(parts)


def _lines(lines: Iterable[Text]) -> Text:
    return Text("\n").join(lines)


def _sentence(row: KernelReport, report: RegsReport) -> Text:
    smem = f"{known(row.static_smem_bytes)} + {row.dynamic_smem_bytes} B static + dynamic smem"
    facts = [f"{row.registers} regs", f"stack {row.usage.stack_bytes} B", smem, f"{BARRIERS.cell(row)} bar"]
    if row.usage.spills:
        facts.insert(1, f"!spills {spill_bytes(row.usage)}")
    if (occupied := row.occupancy) is not None:
        percent = percent_text(occupied.percent)
        facts.append(f"{occupied.blocks_per_sm} blocks/SM, {occupied.warps_per_sm} warps/SM, {percent} %")
        facts.append(f"limited by {LIMITERS.cell(row)}")
    if (waves := waves_of(row, report)) is not None:
        facts.append(f"{waves:.2f} waves")
    name = Text(f"{row.name} {row.arch.name}", style="bold")
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
            if call.spills and row.variant is not None:
                what = f"{shorten(call.demangled)}, which spills {spill_bytes(call)}"
                yield Text(f"! {row.name} ({row.arch.name}) calls {what}", style=LOUD)
    for call in dict.fromkeys(call for row in report.rows if row.variant is None for call in row.calls if call.spills):
        yield Text(
            f"! the device function {shorten(call.demangled)} ({call.arch}) spills {spill_bytes(call)}", style=LOUD
        )
    for row in report.rows:
        if row.occupancy is not None and cannot_launch(row):
            limiters = " and ".join(FULL_NAMES[name] for name in row.occupancy.limiters)
            yield Text(f"! {row.name} cannot launch on {row.arch.name}: too many {limiters}", style=LOUD)
    yield from failing_tests(report)
    for arch in report.archs:
        missing = [item for item in report.left_out if item.arch == arch]
        if missing:
            first = missing[0]
            count = "" if len(missing) == 1 else f"{len(missing)} variants, such as "
            yield Text(f"{arch.name} leaves out {count}{first.variant.name}: {first.reason}")
    if letters:
        yield Text("lim: " + ", ".join(f"{LETTERS[name]} {FULL_NAMES[name]}" for name in LETTERS), style="dim")
    dynamic = "flags.yaml's" if report.profile else "--smem's"
    what = f"static smem is the compiler's, dynamic smem {dynamic}; occupancy counts both and 1024 B reserved per block"
    yield Text(what, style="dim")
    if report.grid is not None:
        grid = f"{report.grid.blocks} blocks on {report.grid.gpu}, {report.grid.sm_count} SMs"
        yield Text(f"waves of {grid}: blocks ÷ (blocks/SM × SMs)", style="dim")
    if any(row.block_threads is None for row in report.rows):
        yield Text("occupancy needs the block's size: --block THREADS, and --smem BYTES where it is dynamic")
    for note in report.notes:
        yield Text(note)
    yield from test_summary(report)
    yield Text(build_line(report), style="dim")


def failing_tests(report: RegsReport) -> Iterable[Text]:
    """A kernel that computes wrong results is not praised for its registers."""
    for row in {row.variant.name: row for row in report.rows if row.variant is not None}.values():
        if row.tested is not None and row.tested.verdict.failed:
            yield Text(f"! {row.name} fails its tests: {describe_test(row.tested)}", style=LOUD)


def test_summary(report: RegsReport) -> Iterable[Text]:
    cells = {row.variant.name: tests_cell(row) for row in report.rows if row.variant is not None}
    counts = Counter("!" if cell.startswith("!") else cell for cell in cells.values())
    words = {
        "!": "fail",
        "pass": "passed",
        "part": "passed in part",
        "old": "passed before a change",
        "–": "not tested",
    }
    if cells:
        told = ", ".join(f"{counts[key]} {word}" for key, word in words.items() if counts[key])
        yield Text(f"sparkctl test of {len(cells)} variant{'' if len(cells) == 1 else 's'}: {told}", style="dim")


def describe_test(tested: LastTest) -> str:
    """`178 cases passed on the emulator, commit 0123456789ab with changes, 2026-01-31 12:00 UTC, of this very code`."""
    verdict = tested.verdict
    cases = f"{verdict.cases} case{'' if verdict.cases == 1 else 's'}"
    how = f"{verdict.failed} of {cases} failed" if verdict.failed else f"{cases} passed"
    part = "" if verdict.whole else ", a part of them"
    commit = f"commit {verdict.commit}{' with changes' if verdict.dirty else ''}, " if verdict.commit else ""
    when = f"{verdict.time[:16].replace('T', ' ')} UTC"
    code = "this very code" if tested.current else "other code than this"
    return f"{how}{part} on {verdict.device}, {commit}{when}, of {code}"


def build_line(report: RegsReport) -> str:
    """`nvcc 13.0.88, profile release, min_blocks=4`."""
    profile = f", profile {report.profile}" if report.profile else ""
    return f"{report.compiler}{profile}{''.join(f', {name}={value}' for name, value in report.sets.items())}"


def _details(row: KernelReport) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), show_header=False, title_justify="left")
    table.title = Text(f"{row.name}  {row.arch.name}", style="bold")
    table.add_column(min_width=11)
    table.add_column(overflow="fold")
    facts = [("function", function_name(row)), ("mangled", row.usage.function)]
    if (occupied := row.occupancy) is not None:
        limits = ", ".join(f"{FULL_NAMES[name]} {known(count)}" for name, count in occupied.limits.items())
        facts += [
            ("blocks/SM", f"{occupied.blocks_per_sm} of: {limits}"),
            ("warps/SM", f"{occupied.warps_per_sm} of {limits_for(row.arch).warps_per_sm}"),
            ("next step", describe_step(row.next_step)),
        ]
    facts += [
        *([("tests", describe_test(row.tested))] if row.tested else []),
        *(("calls", f"{shorten(c.demangled)}: stack {c.stack_bytes} B, spills {spill_bytes(c)}") for c in row.calls),
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
