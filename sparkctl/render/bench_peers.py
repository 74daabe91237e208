"""The peers of a table of rows: columns of it where they are few, else a table of their own."""

from __future__ import annotations

from collections.abc import Sequence

from sparkctl.bench.results import Row
from sparkctl.render.bench import NOTHING, case_text, format_us, varying_axes

MOST_COLUMNS = 2  # peers that fit beside ours on 80 columns


def peers_beside(rows: Sequence[Row]) -> bool:
    """Whether those that ran fit into the rows' own table."""
    return len({peer.name for row in rows for peer in row.peers if peer.series is not None}) <= MOST_COLUMNS


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
                cells.append(["", peer.name, *times, f"{row.speedup(peer):.2f}×"])
    return cells


def _percent(noise: float) -> str:
    return f"{noise * 100:.1f}"
