"""The peers of a table of rows: columns of it where they are few, else a table of their own."""

from __future__ import annotations

from collections.abc import Sequence

from sparkctl.bench.results import Row
from sparkctl.render.bench import NOTHING, case_text, format_us, varying_axes

MOST_COLUMNS = 2  # peers that fit beside ours on 80 columns


def peers_beside(rows: Sequence[Row]) -> bool:
    """Whether those that ran fit into the rows' own table."""
    return len(_names(rows)) <= MOST_COLUMNS


def peer_columns(rows: Sequence[Row], *, wide: bool) -> list[tuple[str, list[str]]]:
    """Title and texts of each peer that ran on one of the rows."""
    columns: list[tuple[str, list[str]]] = []
    for name in _names(rows):
        results = [next((peer for peer in row.peers if peer.name == name), None) for row in rows]
        times = [NOTHING if p is None or p.series is None else format_us(p.series.median_us) for p in results]
        ratios = [NOTHING if p is None else _ratio(row.speedup(p)) for row, p in zip(rows, results, strict=True)]
        title = name.replace(" ", "\n")
        columns += [(f"{title} µs", times), (f"{title} ×", ratios)] if wide else [(title, ratios)]
    return columns


def peer_cells(rows: Sequence[Row]) -> list[list[str]]:
    """The header, then for each case ours and each peer that ran: its time, its noise, its time over ours."""
    varying = varying_axes([row.case for row in rows])
    cells = [["case", "library", "time\nµs", "noise\n%", "×"]]
    for row in rows:
        cells.append(
            [case_text(row.case, varying), "ours", format_us(row.series.median_us), _percent(row.series.noise), NOTHING]
        )
        for peer in row.peers:
            if peer.series is not None:
                times = [format_us(peer.series.median_us), _percent(peer.series.noise)]
                cells.append(["", peer.name, *times, _ratio(row.speedup(peer))])
    return cells


def _percent(noise: float) -> str:
    return f"{noise * 100:.1f}"


def _names(rows: Sequence[Row]) -> list[str]:
    """Of the peers that ran on any of the rows."""
    return list(dict.fromkeys(peer.name for row in rows for peer in row.peers if peer.series is not None))


def _ratio(speedup: float | None) -> str:
    return NOTHING if speedup is None else f"{speedup:.2f}×"
