"""Floor times as a table and a JSON-ready dict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sparkctl.bench.estimate import FORMULA, Estimate
from sparkctl.bench.record import case_record
from sparkctl.render.bench import aligned_table, format_us
from sparkctl.render.launch_estimate import launch_record, print_launches
from sparkctl.workflows.launch_estimate import LaunchEstimates

if TYPE_CHECKING:
    from rich.console import Console


def print_estimates(console: Console, estimates: Sequence[Estimate], launches: LaunchEstimates) -> None:
    """Floor times of one GPU, then the launches there."""
    gpu = estimates[0].gpu
    console.print(
        f"{gpu.name} ({gpu.arch.name}): {gpu.bandwidth_tbps:g} TB/s, {gpu.bf16_tflops:g} TFLOP/s dense bf16, "
        f"{gpu.sm_count} SMs, {gpu.l2_bytes / 2**20:g} MiB L2 ({gpu.source})",
        style="bold",
    )
    lines = [
        [
            estimate.case.label,
            f"{estimate.traffic.bytes / 1e6:.1f}",
            f"{estimate.traffic.flops / 1e9:.2f}",
            format_us(estimate.memory_us),
            format_us(estimate.compute_us),
            format_us(estimate.floor_us),
            estimate.bound + (", fits L2" if estimate.fits_l2 else ""),
        ]
        for estimate in estimates
    ]
    header = ["case", "MB", "GFLOP", "memory\nµs", "compute\nµs", "floor\nµs", "bound by"]
    console.print(aligned_table([header, *lines], left=("case", "bound by")))
    paged = any(estimate.case.page_size is not None for estimate in estimates)
    what = "K, V, q, out and page tables" if paged else "K, V, q and out"
    console.print(f"{FORMULA}; bytes: {what} once each. Not a measurement.")
    print_launches(console, launches)


def estimate_record(estimates: Sequence[Estimate], launches: LaunchEstimates) -> dict[str, Any]:
    """JSON-ready."""
    by_case = {launch.case: launch_record(launch) for launch in launches.launches}
    gpu = estimates[0].gpu
    return {
        "kind": "estimate",
        "gpu": {**asdict(gpu), "arch": gpu.arch.name},
        "formula": FORMULA,
        "compiler": launches.compiler,
        "launch_missing": launches.missing,
        "rows": [
            {
                "case": case_record(e.case),
                "bytes": e.traffic.bytes,
                "flops": e.traffic.flops,
                "memory_us": e.memory_us,
                "compute_us": e.compute_us,
                "floor_us": e.floor_us,
                "bound": e.bound,
                "fits_l2": e.fits_l2,
                "launch": by_case.get(e.case),
            }
            for e in estimates
        ],
    }
