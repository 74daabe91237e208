"""Parses `ncu --csv --page raw` and knows the few metrics that matter. Pure."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass

from sparkctl.errors import WorkFailed

DURATION = "gpu__time_duration.sum"
DRAM_READ = "dram__bytes_read.sum"
DRAM_WRITTEN = "dram__bytes_write.sum"
DRAM_PERCENT = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
L2_HITS = "lts__t_sector_hit_rate.pct"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
TENSOR_PIPE = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"
METRICS = (DURATION, DRAM_READ, DRAM_WRITTEN, DRAM_PERCENT, L2_HITS, OCCUPANCY, TENSOR_PIPE)
STALL_SECTION = "WarpStateStats"  # its metrics differ between chips, so the section is asked for
_STALL = re.compile(r"^smsp__average_warps?_issue_stalled_(?P<reason>\w+?)_per_issue_active\.ratio$")
_NS = {"ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}
_BYTES = {"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}


@dataclass(frozen=True, slots=True)
class Metric:
    """As ncu printed it; `value` is None for text and for what the chip does not have."""

    value: float | None
    unit: str
    text: str


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch."""

    kernel: str  # as ncu demangles it
    grid: str
    block: str
    metrics: Mapping[str, Metric]

    def value(self, name: str) -> float | None:
        metric = self.metrics.get(name)
        return metric.value if metric else None

    @property
    def duration_ns(self) -> float | None:
        return self._scaled(DURATION, _NS)

    @property
    def dram_read_bytes(self) -> float | None:
        return self._scaled(DRAM_READ, _BYTES)

    @property
    def dram_written_bytes(self) -> float | None:
        return self._scaled(DRAM_WRITTEN, _BYTES)

    @property
    def stalls(self) -> tuple[tuple[str, float], ...]:
        """(reason, cycles that a warp waits for it for each instruction issued), the largest first."""
        found = [(match["reason"], m.value) for name, m in self.metrics.items() if (match := _STALL.match(name))]
        known = [(reason, value) for reason, value in found if value is not None and reason not in ("selected",)]
        return tuple(sorted(known, key=lambda item: (-item[1], item[0])))

    def _scaled(self, name: str, units: Mapping[str, float]) -> float | None:
        metric = self.metrics.get(name)
        if metric is None or metric.value is None or metric.unit not in units:
            return None
        return metric.value * units[metric.unit]


def parse_counters(text: str) -> tuple[Launch, ...]:
    """The launches of ncu's log, whose table starts at the line `"ID",…`: names, units, then a row a launch.

    WorkFailed for text without the table or one that ends early.
    """
    lines = text.splitlines(keepends=True)
    start = next((number for number, line in enumerate(lines) if line.startswith('"ID",')), None)
    if start is None:
        raise WorkFailed("ncu printed no table")
    if not lines[-1].endswith(("\n", '"')):  # behind a comma a field without text is none that ncu prints
        raise WorkFailed("ncu's table ends early")
    try:
        names, units, *rows = list(csv.reader(io.StringIO("".join(_table(lines[start:]))), strict=True))
    except (ValueError, csv.Error) as error:
        raise WorkFailed("ncu's table ends early") from error
    if any(len(row) != len(names) for row in (units, *rows)) or "Kernel Name" not in names or not rows:
        raise WorkFailed("ncu's table ends early")
    return tuple(_launch(dict(zip(names, row, strict=True)), dict(zip(names, units, strict=True))) for row in rows)


def _table(lines: list[str]) -> list[str]:
    return [line for line in lines if line.strip() and not line.startswith("==")]


def _launch(row: Mapping[str, str], units: Mapping[str, str]) -> Launch:
    return Launch(
        kernel=row["Kernel Name"],
        grid=row.get("Grid Size", ""),
        block=row.get("Block Size", ""),
        metrics={name: Metric(_number(text), units[name], text) for name, text in row.items() if "__" in name},
    )


def _number(text: str) -> float | None:
    """`1,234.5`; None for `n/a` and words."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None
