"""Occupancy, splits and waves of a GPU that is not here, below its floor times."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sparkctl.render.bench import aligned_table
from sparkctl.workflows.launch_estimate import Launch, LaunchEstimates

if TYPE_CHECKING:
    from rich.console import Console


def print_launches(console: Console, estimates: LaunchEstimates) -> None:
    """A block for each variant, or one line that says what is missing."""
    if estimates.missing is not None:
        console.print(f"occupancy, splits and waves: not known, {estimates.missing}")
        return
    for variant in dict.fromkeys(launch.variant for launch in estimates.launches):
        launches = [launch for launch in estimates.launches if launch.variant == variant]
        console.print()
        console.print(_heading(launches[0], estimates.compiler or "nvcc"), style="bold")
        header = ["case", "splits", "blocks", "waves"]
        lines = [
            [launch.case.label, str(launch.num_splits), str(_blocks(launch)), f"{launch.waves:.2f}"]
            for launch in launches
        ]
        console.print(aligned_table([header, *lines], left=("case",)))
    console.print("waves: blocks of the grid over those that the GPU holds at a time.")


def _heading(launch: Launch, compiler: str) -> str:
    plural = "" if launch.blocks_per_sm == 1 else "s"
    limiters = ", ".join(name.replace("_", " ") for name in launch.limiters)
    return (
        f"{launch.variant}: {launch.registers} registers, {launch.blocks_per_sm} block{plural}/SM, occupancy "
        f"{launch.occupancy_percent:g} %, limited by {limiters} ({compiler})"
    )


def _blocks(launch: Launch) -> int:
    return launch.grid[0] * launch.grid[1] * launch.grid[2]


def launch_record(launch: Launch) -> dict[str, Any]:
    """JSON-ready, without the case."""
    record = asdict(launch)
    del record["case"]
    return {**record, "limiters": list(launch.limiters), "grid": list(launch.grid)}
