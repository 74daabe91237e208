"""Register caps side by side: what each cap gives in registers, costs in spills and makes of the occupancy."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from sparkctl.render.regs import build_line
from sparkctl.render.regs_columns import (
    BLOCKS_SHORT,
    LETTERS,
    LIMITERS_SHORT,
    LOUD,
    OCCUPANCY,
    REGISTERS,
    SPILLS,
    STACK,
    WARPS_SHORT,
    Column,
)
from sparkctl.render.regs_export import flat_row, kernel_json
from sparkctl.workflows.regs_caps import Capped, Sweep

if TYPE_CHECKING:
    from rich.console import Console

COLUMNS = (REGISTERS, SPILLS, STACK, BLOCKS_SHORT, WARPS_SHORT, OCCUPANCY, LIMITERS_SHORT)


def show_sweep(console: Console, sweep: Sweep) -> None:
    """Each kernel and arch as a heading, its caps below it."""
    for group in groups(sweep.rows):
        row = group[0].row
        console.print(Text(f"{row.name}  {row.arch.name}", style="bold"), soft_wrap=True)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        table.add_column("  cap", no_wrap=True)
        for column in COLUMNS:
            table.add_column(_header(column), justify="right" if column.right else "left", no_wrap=True)
        for one in group:
            cells = (Text(c.cell(one.row), style=LOUD if c.loud(one.row) else "") for c in COLUMNS)
            table.add_row(f"  {cap_text(one)}", *cells)
        console.print(table)
        console.print()
    if any(one.clamped for one in sweep.rows):
        console.print("a cap in brackets was lowered to what lets one block launch: 65536 registers a block")
    for note in sweep.report.notes:
        console.print(Text(note))
    console.print(Text("lim: " + ", ".join(f"{letter} {name.replace('_', ' ')}" for name, letter in LETTERS.items())))
    console.print(Text(build_line(sweep.report), style="dim"))


def sweep_json(sweep: Sweep) -> dict[str, Any]:
    """Every compile with its cap; null is none."""
    report = sweep.report
    return {
        "command": "regs --max-regs",
        "compiler": report.compiler,
        "profile": report.profile,
        "sets": dict(report.sets),
        "kernels": [{"asked": one.asked, "cap": one.cap, **kernel_json(one.row, report)} for one in sweep.rows],
        "notes": list(report.notes),
    }


def sweep_csv(sweep: Sweep) -> str:
    """One line per kernel, arch and cap."""
    out = io.StringIO()
    rows = [{"asked": one.asked, "cap": one.cap, **flat_row(one.row, sweep.report)} for one in sweep.rows]
    writer = csv.DictWriter(out, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def sweep_markdown(sweep: Sweep) -> str:
    """A table for a pull request."""
    headers = ["variant", "arch", "cap", *(_header(column).replace("\n", " ") for column in COLUMNS)]
    lines = [f"| {' | '.join(headers)} |", f"| --- | --- | ---: |{' ---: |' * (len(COLUMNS) - 1)} --- |"]
    for one in sweep.rows:
        cells = [one.row.name, one.row.arch.name, cap_text(one), *(column.cell(one.row) for column in COLUMNS)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", build_line(sweep.report)]) + "\n"


def groups(rows: Sequence[Capped]) -> list[list[Capped]]:
    """The caps of each kernel and arch."""
    found: dict[tuple[str, str, str], list[Capped]] = {}
    for one in rows:
        found.setdefault((one.row.kernel, one.row.name, one.row.arch.name), []).append(one)
    return list(found.values())


def cap_text(one: Capped) -> str:
    """`none`, `96`, or `128 (255)` where 255 was asked."""
    if one.asked is None:
        return "none"
    return f"{one.cap} ({one.asked})" if one.clamped else str(one.asked)


def _header(column: Column) -> str:
    return "\n".join(column.header)
