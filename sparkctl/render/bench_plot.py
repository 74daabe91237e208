"""Benchmark rows as bars on a terminal: TB/s of each case, and where its read ceiling lies."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkctl.bench.results import Row, Run
from sparkctl.render.bench import case_text, varying_axes

if TYPE_CHECKING:
    from rich.console import Console

WIDEST = 120  # columns of a plot, however wide the terminal
NARROWEST_BAR = 10  # with less room there is no plot
EIGHTHS = " ▏▎▍▌▋▊▉"
FULL, CEILING = "█", "│"
ASCII_FULL, ASCII_CEILING = "#", "|"


@dataclass(frozen=True, slots=True)
class PlotLine:
    """One row: label, bar up to its value, blanks up to the ceiling's mark, the mark, then numbers."""

    label: str
    bar: str
    gap: str
    mark: str
    tail: str  # of the bar, where it goes beyond the mark; else blanks
    numbers: str

    def __str__(self) -> str:
        return f"{self.label}  {self.bar}{self.gap}{self.mark}{self.tail}  {self.numbers}".rstrip()


def print_plot(console: Console, run: Run) -> None:
    """Beneath the tables, on a terminal only: a group of bars for each variant or each kernel's arms."""
    from rich.text import Text

    if not sys.stdout.isatty():
        return
    groups = [(title, plot_lines(rows, console.width, plain=not _has_blocks())) for title, rows in _groups(run)]
    if not any(lines for _, lines in groups):
        return
    console.print()
    mark = CEILING if _has_blocks() else ASCII_CEILING
    for title, lines in groups:
        console.print(f"{title}, TB/s; {mark} the read ceiling", style="bold")
        for line in lines:
            parts = [(f"{line.label}  ", ""), (line.bar, "cyan"), (line.gap, ""), (line.mark, "yellow")]
            console.print(Text.assemble(*parts, (line.tail, "cyan"), f"  {line.numbers}"), soft_wrap=True)


def _groups(run: Run) -> list[tuple[str, list[Row]]]:
    titles = dict.fromkeys(_title(row, run) for row in run.rows)
    return [(title, [row for row in run.rows if _title(row, run) == title]) for title in titles]


def _title(row: Row, run: Run) -> str:
    return row.variant if run.ab is None else row.kernel


def plot_lines(rows: Sequence[Row], width: int, *, plain: bool = False) -> list[PlotLine]:
    """One line a row, all on one scale, none wider than `width`; none at all where bars have no room. Pure."""
    labels = _labels(rows)
    numbers = [f"{row.tbps:.2f} of {row.ceiling.tbps:.2f}, {row.ceiling_share * 100:.0f} %" for row in rows]
    beside = max(map(len, labels), default=0) + max(map(len, numbers), default=0) + 4
    room = min(width, WIDEST) - beside
    if not rows or room < NARROWEST_BAR:
        return []
    scale = (room - 1) / max(max(row.tbps, row.ceiling.tbps) for row in rows)
    label_width, number_width = max(map(len, labels)), max(map(len, numbers))
    return [
        _line(row, label.ljust(label_width), number.rjust(number_width), scale, room, plain=plain)
        for row, label, number in zip(rows, labels, numbers, strict=True)
    ]


def _line(row: Row, label: str, numbers: str, scale: float, room: int, *, plain: bool) -> PlotLine:
    bar, at = _bar(row.tbps * scale, plain=plain), round(row.ceiling.tbps * scale)
    before, beyond = bar[:at], bar[at + 1 :]
    mark = ASCII_CEILING if plain else CEILING
    return PlotLine(label, before, " " * (at - len(before)), mark, beyond.ljust(room - at - 1), numbers)


def _bar(length: float, *, plain: bool) -> str:
    """`length` columns of a block, to an eighth of a column."""
    if plain:
        return ASCII_FULL * max(1, round(length))
    eighths = max(1, round(length * 8))
    return (FULL * (eighths // 8) + EIGHTHS[eighths % 8]).rstrip()


def _labels(rows: Sequence[Row]) -> list[str]:
    cases = [row.case for row in rows]
    named = [axis for axis in ("head_dim", "dtype") if len({getattr(case, axis) for case in cases}) > 1]
    varying = (*varying_axes(cases), *named)
    return [" ".join(filter(None, (case_text(row.case, varying), row.arm))) for row in rows]


def _has_blocks() -> bool:
    try:
        (FULL + CEILING + EIGHTHS).encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True
