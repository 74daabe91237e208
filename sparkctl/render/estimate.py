"""Floor times as a table and a JSON-ready dict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sparkctl.bench.estimate import FORMULA, Estimate
from sparkctl.bench.record import case_record
from sparkctl.render.bench import aligned_table, format_us

if TYPE_CHECKING:
    from rich.console import Console


def print_estimates(console: Console, estimates: Sequence[Estimate]) -> None:
    """Floor times of one GPU."""
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


def estimate_record(estimates: Sequence[Estimate]) -> dict[str, Any]:
    """JSON-ready."""
    gpu = estimates[0].gpu
    return {
        "kind": "estimate",
        "gpu": {**asdict(gpu), "arch": gpu.arch.name},
        "formula": FORMULA,
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
            }
            for e in estimates
        ],
    }
