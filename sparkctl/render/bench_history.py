"""What the history says of a kernel: each case over time, as tables with a sparkline, CSV and JSON."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sparkctl.bench.history import Entry, Line
from sparkctl.render.bench import aligned_table, format_us

if TYPE_CHECKING:
    from rich.console import Console

SHOWN = 10  # latest runs of a case, but for -v
HEADS = ("date, UTC", "commit")
SPARKS = "▁▂▃▄▅▆▇█"
PLAIN_SPARKS = "_.-=*#"
SPARKLINE = 40  # latest runs in a sparkline
LEAST_SPAN = 0.02  # of the time, that fills a sparkline: less is noise and looks like it


def group_entries(entries: Sequence[Entry]) -> dict[Line, list[Entry]]:
    """The runs of each case, oldest first; those of a variant together."""
    groups: dict[Line, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.line, []).append(entry)
    variants = list(dict.fromkeys((line.gpu, line.variant) for line in groups))
    return dict(sorted(groups.items(), key=lambda group: variants.index((group[0].gpu, group[0].variant))))


def print_history(console: Console, entries: Sequence[Entry], *, everything: bool) -> None:
    """For each variant its cases: a line with the sparkline, then a table of runs."""
    heading = ""
    for line, own in group_entries(entries).items():
        title = f"{line.variant} on {line.gpu}"
        if title != heading:
            console.print(title, style="bold")
            heading = title
        console.print(case_line(line, own, plain=not _has_sparks()), soft_wrap=True)
        shown = own if everything else own[-SHOWN:]
        console.print(aligned_table(history_cells(own, len(shown)), left=HEADS, whole=HEADS))
        if len(shown) < len(own):
            console.print(f"{len(own) - len(shown)} older: -v lists them")
        console.print()
    console.print("against before: the time beside that of the run before; in brackets where the intervals overlap")
    if any(entry.dirty for entry in entries):
        console.print("* measured with uncommitted changes")


def case_line(line: Line, own: Sequence[Entry], *, plain: bool = False) -> str:
    """`1 × 16k, 32/8, d128, bf16  ▃▂▁  3 runs, 15.26–16.10 µs`."""
    times = [entry.time_us for entry in own]
    name = ", ".join(filter(None, (line.label, line.arm)))
    runs = f"{len(own)} run{'s' if len(own) > 1 else ''}"
    span = "–".join(dict.fromkeys((format_us(min(times)), format_us(max(times)))))
    return f"{name}  {sparkline(times[-SPARKLINE:], plain=plain)}  {runs}, {span} µs"


def sparkline(times: Sequence[float], *, plain: bool = False) -> str:
    """A character for each time, higher is slower; a spread below LEAST_SPAN does not fill the height."""
    levels = PLAIN_SPARKS if plain else SPARKS
    low = min(times)
    span = max(max(times) - low, low * LEAST_SPAN)
    return "".join(levels[min(int((time - low) / span * len(levels)), len(levels) - 1)] for time in times)


def history_cells(own: Sequence[Entry], last: int) -> list[list[str]]:
    """The header and the last lines, each with its change against the run before."""
    before: list[Entry | None] = [None, *own[:-1]]
    pairs = list(zip(own, before, strict=True))[-last:]
    header = [*HEADS, "time\nµs", "noise\n%", "TB/s", "% of\nceiling", "splits", "against\nbefore"]
    return [header, *(_cells(entry, earlier) for entry, earlier in pairs)]


def _cells(entry: Entry, earlier: Entry | None) -> list[str]:
    commit = (entry.commit or "unknown") + ("*" if entry.dirty else "")
    date = entry.started[:16].replace("T", " ")
    share = f"{entry.tbps / entry.ceiling_tbps * 100:.0f}"
    rates = [format_us(entry.time_us), f"{entry.noise * 100:.1f}", f"{entry.tbps:.2f}", share]
    return [date, commit, *rates, str(entry.num_splits), "–" if earlier is None else change_text(entry, earlier)]


def change_text(entry: Entry, earlier: Entry) -> str:
    """`−1.5 %`; in brackets where the two intervals overlap."""
    change = (entry.time_us / earlier.time_us - 1) * 100
    text = f"{change:+.1f} %".replace("-", "−")
    apart = entry.low_us > earlier.high_us or entry.high_us < earlier.low_us
    return text if apart else f"({text})"


def history_csv(entries: Sequence[Entry]) -> str:
    """A line for each row of each run."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    records = [_record(entry) for entry in entries]
    writer.writerow(records[0])
    writer.writerows([["" if value is None else value for value in record.values()] for record in records])
    return text.getvalue().rstrip("\n")


def history_record(entries: Sequence[Entry], pattern: str, path: str) -> dict[str, Any]:
    """JSON-ready."""
    return {"kind": "bench_history", "kernel": pattern, "database": path, "rows": [_record(entry) for entry in entries]}


def _record(entry: Entry) -> dict[str, Any]:
    flat = asdict(entry)
    line = flat.pop("line")
    return {"kernel": flat.pop("kernel"), **line, **flat}


def _has_sparks() -> bool:
    try:
        SPARKS.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True
