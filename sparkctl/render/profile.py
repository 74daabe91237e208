"""What `sparkctl profile` counted, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sparkctl.resources import shorten
from sparkctl.resources.counters import DRAM_PERCENT, L2_HITS, OCCUPANCY, TENSOR_PIPE, Launch
from sparkctl.workflows.profile import ProfileReport

SHOWN_STALLS = 3
_MIB = 1 << 20
NOTE = "one launch alone, caches flushed ahead of each pass, clocks as they are: sparkctl bench is for times"


def render_profile(report: ProfileReport) -> RenderableType:
    """A block a launch, in the order of the launches."""
    plan = report.plan
    heading = Text.assemble((plan.variant.name, "bold"), f"  {plan.suite.arch.name}  {plan.device.name}")
    parts: list[RenderableType] = [heading, Text(f"case {plan.case.id}")]
    for launch in report.launches:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        rows = metric_rows(launch) if plan.metrics else usual_rows(launch)
        for name, value in rows:
            table.add_row(Text(f"  {name}"), Text(value))
        title = Text.assemble((short_name(report, launch), "bold"), f"  grid {launch.grid}, block {launch.block}")
        parts += [Text(), title, table]
    return Group(*parts, Text(), Text(NOTE, style="dim"))


def short_name(report: ProfileReport, launch: Launch) -> str:
    return shorten(launch.kernel, dict(report.plan.variant.values))


def usual_rows(launch: Launch) -> Iterator[tuple[str, str]]:
    """The few that matter."""
    yield "duration", "–" if launch.duration_ns is None else f"{launch.duration_ns / 1000:.2f} µs"
    read, written = _mib(launch.dram_read_bytes), _mib(launch.dram_written_bytes)
    yield "DRAM", f"{read} read, {written} written, {_percent(launch, DRAM_PERCENT)} of peak"
    yield "L2 hit rate", _percent(launch, L2_HITS)
    yield "achieved occupancy", _percent(launch, OCCUPANCY)
    yield "tensor pipe", f"{_percent(launch, TENSOR_PIPE)} of peak"
    stalls = ", ".join(f"{reason.replace('_', ' ')} {cycles:.2f}" for reason, cycles in launch.stalls[:SHOWN_STALLS])
    yield "stalls", f"{stalls} cycles an instruction" if stalls else "–"


def metric_rows(launch: Launch) -> Iterator[tuple[str, str]]:
    """One's own, as ncu printed them."""
    for name, metric in launch.metrics.items():
        yield name, f"{metric.text or '–'} {metric.unit}".rstrip()


def profile_json(report: ProfileReport) -> dict[str, Any]:
    """Durations in ns, sizes in bytes, null for what ncu did not tell; and every metric that it printed."""
    plan = report.plan
    return {
        "command": "profile",
        "variant": plan.variant.name,
        "arch": plan.suite.arch.name,
        "device": plan.device.name,
        "case": plan.case.id,
        "ncu": str(plan.ncu),
        "launches": [
            {
                "kernel": launch.kernel,
                "short_name": short_name(report, launch),
                "grid": launch.grid,
                "block": launch.block,
                "duration_ns": launch.duration_ns,
                "dram_read_bytes": launch.dram_read_bytes,
                "dram_written_bytes": launch.dram_written_bytes,
                "dram_percent_of_peak": launch.value(DRAM_PERCENT),
                "l2_hit_percent": launch.value(L2_HITS),
                "achieved_occupancy_percent": launch.value(OCCUPANCY),
                "tensor_pipe_percent_of_peak": launch.value(TENSOR_PIPE),
                "stalls": [{"reason": reason, "cycles_per_instruction": cycles} for reason, cycles in launch.stalls],
                "metrics": {
                    name: {"value": m.value, "unit": m.unit, "text": m.text} for name, m in launch.metrics.items()
                },
            }
            for launch in report.launches
        ],
    }


def _mib(size: float | None) -> str:
    return "–" if size is None else f"{size / _MIB:.2f} MiB"


def _percent(launch: Launch, name: str) -> str:
    value = launch.value(name)
    return "–" if value is None else f"{value:.1f} %"
