"""SASS and PTX for people: the mix, the listing, the instructions of each source line."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sparkctl.render.console import indented
from sparkctl.resources import shorten
from sparkctl.resources.code import Function, Instruction, LineCount, Mix, Place
from sparkctl.resources.sass import GROUPS, LOCAL
from sparkctl.workflows.code import CodeReport, CodeRow, Registers

GAP = 2
LOUD = "bold red"
GMEM = ("global load", "async copy", "bulk copy", "global store")
SMEM = ("shared load", "matrix load", "shared store")
Layout = tuple[str, str, tuple[str, ...]]


def _with_rest(columns: Sequence[Layout]) -> tuple[Layout, ...]:
    """And a column for all other groups."""
    named = {group for _, _, groups in columns for group in groups}
    return (*columns, ("other", "other", tuple(group for group in GROUPS if group not in named)))


# A column's title for SASS and for PTX, and the groups that it adds up.
WIDE: tuple[Layout, ...] = (
    ("LDG", "ld.global", ("global load",)),
    ("LDGSTS", "cp.async", ("async copy",)),
    ("bulk", "bulk", ("bulk copy",)),
    ("STG", "st.global", ("global store",)),
    ("LDS", "ld.shared", ("shared load",)),
    ("LDSM", "ldmatrix", ("matrix load",)),
    ("STS", "st.shared", ("shared store",)),
    ("local", "local", LOCAL),
    ("MMA", "mma", ("tensor core",)),
    ("FP32", "f32", ("FP32",)),
    ("FP16", "f16", ("FP16",)),
    ("FP64", "f64", ("FP64",)),
    ("MUFU", "mufu", ("MUFU",)),
    ("cvt", "cvt", ("conversion",)),
    ("SHFL", "shfl", ("shuffle",)),
    ("sync", "sync", ("barrier", "wait")),
    ("int", "int", ("integer",)),
    ("branch", "branch", ("branch",)),
    ("move", "move", ("move",)),
    ("other", "other", ("constant load", "atomic", "other")),
)
_IN_MIDDLE = ("LDG", "LDGSTS", "bulk", "STG", "LDS", "LDSM", "STS", "local", "MMA", "FP32", "FP16", "MUFU", "int")
MIDDLE = _with_rest([layout for layout in WIDE if layout[0] in _IN_MIDDLE])
NARROW = _with_rest(
    [
        ("gmem", "gmem", GMEM),
        ("smem", "smem", SMEM),
        *(one for one in WIDE if one[0] in _IN_MIDDLE[7:] and one[0] != "FP16"),
    ]
)


@dataclass(frozen=True, slots=True)
class Column:
    """A number of a row; `loud` where it is a spill."""

    title: str
    cell: Callable[[CodeRow], str]
    loud: bool = False


def render_mix(report: CodeReport, *, width: int, verbose: bool = False) -> RenderableType:
    """The whole screen: one row in full, several as a table."""
    if len(report.rows) == 1 or verbose:
        parts = [part for row in report.rows for part in (_one(row, width), Text())]
    else:
        parts = [*_many(report, width), Text()]
    return Group(*parts, *_notes(report))


def count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def title_of(row: CodeRow) -> str:
    return f"{row.variant.name}  {row.arch.name}"


def function_name(row: CodeRow) -> str:
    return shorten(row.demangled, dict(row.variant.values))


def describe_registers(registers: Registers) -> str:
    """`96 registers, no spills`."""
    if registers.count is None:
        return "registers unknown"
    spills = (
        f"!spills {registers.spill_store_bytes}/{registers.spill_load_bytes} B" if registers.spills else "no spills"
    )
    return f"{registers.count} registers, {spills}"


def describe_size(row: CodeRow) -> str:
    """`854 instructions, 271 of them in 6 loops`."""
    size = count(row.mix.total, "instruction")
    if row.function.loops is None:
        return f"{size}; an indirect branch hides the loops"
    loops = len(row.function.loops)
    return f"{size}, {row.mix.total_looped} of them in {count(loops, 'loop')}" if loops else f"{size}, no loop"


def _one(row: CodeRow, width: int) -> RenderableType:
    found = list(mix_rows(row.mix))
    labels = [f"! {group}" if group in LOCAL else group for group, *_ in found]
    left = width - max(map(len, labels)) - (16 if row.mix.looped is not None else 9)
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    table.add_column("kind", no_wrap=True)
    table.add_column("all", justify="right", no_wrap=True)
    if row.mix.looped is not None:
        table.add_column("loops", justify="right", no_wrap=True)
    table.add_column("of these", overflow="fold")
    for label, (group, all_, looped, names) in zip(labels, found, strict=True):
        cells = [label, str(all_), *([] if looped is None else [str(looped)])]
        table.add_row(*cells, folded(names, left), style=LOUD if group in LOCAL else "")
    looped = row.mix.total_looped
    table.add_row("total", str(row.mix.total), *([] if looped is None else [str(looped)]), "", style="bold")
    heading = Text.assemble((title_of(row), "bold"), f"\n{function_name(row)}\n")
    heading.append(describe_registers(row.registers), style=LOUD if row.registers.spills else "")
    heading.append(f"; {describe_size(row)}\n")
    parts: list[RenderableType] = [heading, table]
    if row.function.callees:
        parts.append(Text(f"\ncalls {', '.join(row.function.callees)}"))
    return Group(*parts)


def folded(items: Sequence[str], width: int) -> str:
    """Joined by commas, in lines that break between items."""
    text = ", ".join(item.replace(" ", "\0") for item in items)
    options = {"break_long_words": False, "break_on_hyphens": False}
    return "\n".join(textwrap.wrap(text, max(width, 20), **options)).replace("\0", " ")  # type: ignore[arg-type]


def mix_rows(mix: Mix) -> Iterator[tuple[str, int, int | None, list[str]]]:
    """(group, all, in loops, [`LDG.32 108`, `LDG.128 9`])."""
    for group, kinds in groupby(mix.all.items(), key=lambda item: item[0][0]):
        held = list(kinds)
        looped = None if mix.looped is None else sum(mix.looped.get(kind, 0) for kind, _ in held)
        yield group, sum(n for _, n in held), looped, [f"{name} {n}" for (_, name), n in held]


def _many(report: CodeReport, width: int) -> Iterator[RenderableType]:
    """Kernels are headings; the widest columns that fit, else each name above its numbers."""
    columns = _columns(report, WIDE)
    name_width = max(cell_len(_whole_name(row, report)) for row in report.rows)
    if sum(_widths(columns, report.rows)) + GAP * len(columns) + name_width <= width:
        yield _table(report.rows, columns, name_width, report, _whole_name)
        return
    names = [_rest_of_name(row, report) for row in report.rows]
    longest = max(map(cell_len, names))
    layouts = [(_columns(report, layout), longest) for layout in (WIDE, MIDDLE, NARROW)] + [
        (_columns(report, NARROW), 0)
    ]
    columns, name_width = next(
        ((c, n) for c, n in layouts if sum(_widths(c, report.rows)) + GAP * len(c) + (n or 0) <= width), layouts[-1]
    )
    first = True
    for kernel, group in groupby(report.rows, key=lambda row: row.variant.kernel.name):
        if not first:
            yield Text()
        yield Text(kernel if len(report.archs) > 1 else f"{kernel}  {report.archs[0].name}", style="bold")
        rows, first = list(group), False
        if name_width:
            yield _table(rows, columns, name_width, report)
            continue
        for row in rows:
            yield Text(f"{_rest_of_name(row, report)}")
            sentence = ", ".join(f"{column.title} {column.cell(row)}" for column in columns)
            fits = sum(_widths(columns, report.rows)) + GAP * len(columns) <= width
            yield indented(_table([row], columns, 0, report) if fits else Text(sentence))


def _whole_name(row: CodeRow, report: CodeReport) -> str:
    return f"{row.variant.name}{_function_of_several(row, report)} {row.arch.name}"


def _function_of_several(row: CodeRow, report: CodeReport) -> str:
    return f" {function_name(row)}" if sum(other.file == row.file for other in report.rows) > 1 else ""


def _rest_of_name(row: CodeRow, report: CodeReport) -> str:
    kernel = row.variant.kernel.name
    name = row.variant.name.removeprefix(kernel).removeprefix(".") or kernel
    name += _function_of_several(row, report)
    return f"{name} {row.arch.name}" if len(report.archs) > 1 else name


def _columns(report: CodeReport, layout: Sequence[Layout]) -> list[Column]:
    columns = [Column("regs", lambda row: "–" if row.registers.count is None else str(row.registers.count))]
    for sass, ptx, groups in layout:
        if any(row.mix.group(*groups) for row in report.rows) or groups in (("async copy",), LOCAL, ("tensor core",)):
            columns.append(_group_column(ptx if report.form == "ptx" else sass, groups))
    columns.append(Column("total", lambda row: str(row.mix.total)))
    columns.append(Column("loops", lambda row: "–" if row.mix.total_looped is None else str(row.mix.total_looped)))
    return columns


def _group_column(title: str, groups: tuple[str, ...]) -> Column:
    loud = groups == LOCAL

    def cell(row: CodeRow) -> str:
        number = row.mix.group(*groups)
        return f"!{number}" if loud and number else str(number)

    return Column(title, cell, loud)


def _widths(columns: Sequence[Column], rows: Sequence[CodeRow]) -> list[int]:
    return [max(cell_len(text) for text in (column.title, *map(column.cell, rows))) for column in columns]


def _table(
    rows: Sequence[CodeRow],
    columns: Sequence[Column],
    name_width: int,
    report: CodeReport,
    name: Callable[[CodeRow, CodeReport], str] = _rest_of_name,
) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    if name_width:
        table.add_column("variant", width=max(name_width, len("variant")), no_wrap=True)
    for column, width in zip(columns, _widths(columns, report.rows), strict=True):
        table.add_column(column.title, justify="right", width=width, no_wrap=True)
    for row in rows:
        cells = [Text(c.cell(row), style=LOUD if c.loud and c.cell(row) != "0" else "") for c in columns]
        table.add_row(*([name(row, report)] if name_width else []), *cells)
    return table


def _notes(report: CodeReport) -> Iterator[Text]:
    local = [row for row in report.rows if row.mix.group(*LOCAL)]
    if local:
        what = f"{len(local)} of {count(len(report.rows), 'kernel')}"
        yield Text(f"! local memory is used: {what}; spills, or arrays that a thread indexes", style=LOUD)
    for arch in report.archs:
        missing = [item for item in report.left_out if item.arch == arch]
        if missing:
            first = missing[0]
            counted = "" if len(missing) == 1 else f"{len(missing)} variants, such as "
            yield Text(f"{arch.name} leaves out {counted}{first.variant.name}: {first.reason}")
    yield Text("loops: instructions in natural loops, found by the branches back; each counts once", style="dim")
    if report.form == "ptx":
        yield Text("registers are of the object that ptxas made of it", style="dim")
    yield built_with(report)


def built_with(report: CodeReport) -> Text:
    sets = "".join(f", {name}={value}" for name, value in report.sets.items())
    return Text(f"{report.compiler}, profile {report.profile}{sets}", style="dim")


def listing_lines(row: CodeRow, sources: Mapping[Place, str] | None = None) -> Iterator[Text]:
    """The code, one instruction a line: address, a bar for each loop around it, guard, instruction.

    A source line stands above its first instruction, and again where the code comes back to it.
    """
    function = row.function
    depths = loop_depths(function)
    deepest = max(depths, default=0)
    guards = max((len(i.guard) for i in function.instructions), default=0)
    labels: dict[int, list[str]] = {}
    for label, position in function.labels.items():
        labels.setdefault(position, []).append(label)
    yield Text(f"// {title_of(row)}  {describe_registers(row.registers)}; {describe_size(row)}", style="bold")
    before: Place | None = None
    for position, instruction in enumerate(function.instructions):
        for label in labels.get(position, ()):
            yield Text(f"{label}:", style="cyan")
        if instruction.place and instruction.place != before:
            yield Text(f"  // {place_text(instruction.places, sources or {})}", style="green")
        before = instruction.place
        yield Text(instruction_line(instruction, "|" * depths[position], deepest, guards).rstrip())


def loop_depths(function: Function) -> list[int]:
    """In how many loops each instruction is."""
    loops = function.loops or ()
    return [sum(position in loop.body for loop in loops) for position in range(len(function.instructions))]


def instruction_line(instruction: Instruction, bars: str, deepest: int, guards: int) -> str:
    address = "" if instruction.address is None else f"{instruction.address:04x}  "
    return f"  {address}{bars:<{deepest}}{' ' if deepest else ''}{instruction.guard:>{guards}} {instruction.text}"


def place_text(places: Sequence[Place], sources: Mapping[Place, str]) -> str:
    """`merge.cuh:66 (from combine.cuh:30)  the line`."""
    callers = "".join(f" < {place.file.rpartition('/')[2]}:{place.line}" for place in places[1:])
    text = sources.get(places[0], "")
    return f"{places[0].file}:{places[0].line}{callers}" + (f"  {text}" if text else "")


def render_lines(row: CodeRow, report: CodeReport) -> RenderableType:
    """The instructions of each source line, file by file."""
    heading = Text.assemble((title_of(row), "bold"), f"\n{describe_registers(row.registers)}; {describe_size(row)}")
    parts: list[RenderableType] = [heading]
    lines = row.lines
    width = max(len(str(line.place.line)) for line in lines if line.place)
    for file, group in groupby(lines, key=lambda line: line.place.file if line.place else "without a line"):
        parts += [Text(), Text(file, style="bold"), _line_table(list(group), report, width)]
    return Group(*parts, Text(), *_notes(report))


def _line_table(lines: Sequence[LineCount], report: CodeReport, width: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    table.add_column("line", justify="right", min_width=width, no_wrap=True)
    table.add_column("all", justify="right", min_width=4, no_wrap=True)
    table.add_column("loops", justify="right", no_wrap=True)
    table.add_column("source", overflow="fold", ratio=3)
    table.add_column("of these", overflow="fold", ratio=2)
    for line in lines:
        ordered = sorted(line.groups.items(), key=lambda item: (-item[1], GROUPS.index(item[0])))
        local = any(group in LOCAL for group, _ in ordered)
        table.add_row(
            str(line.place.line) if line.place else "–",
            str(line.count),
            "–" if line.looped is None else str(line.looped),
            Text(report.sources.get(line.place, "") if line.place else ""),
            Text(", ".join(f"{'!' if g in LOCAL else ''}{g} {n}" for g, n in ordered), style=LOUD if local else ""),
        )
    return table
