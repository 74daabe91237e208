"""A benchmark of kernels with cases in Python, as a table and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparkctl.render.bench import format_us
from sparkctl.render.console import plain_table

if TYPE_CHECKING:
    from rich.console import Console

    from sparkctl.bench.results import Series
    from sparkctl.workflows.bench_own import OwnRow, OwnRun

NOTHING = "–"


def show_own_bench(console: Console, run: OwnRun) -> None:
    """A row for each variant and case; what failed and what the numbers depend on beneath."""
    ran = {name for row in run.rows for name, peer in row.peers.items() if not isinstance(peer, str)}
    peers = [name for name in dict.fromkeys(name for row in run.rows for name in row.peers) if name in ran]
    names = ("case", "time\nµs", "noise\n%", "TB/s", "of copy\n%", "error", *(f"vs\n{name}" for name in peers))
    table = plain_table(*names, right=names[1:])
    variant = ""
    for row in run.rows:
        if row.variant != variant:
            table.add_row(variant := row.variant)
        table.add_row(f"  {row.case_id}", *_numbers(row), *(_ratio(row, name) for name in peers))
    if run.rows:
        console.print(table)
    for failure in run.failures:
        console.print(f"failed  {failure.variant} {failure.case_id}: {failure.reason}", soft_wrap=True)
    for name, reason in dict.fromkeys((n, p) for row in run.rows for n, p in row.peers.items() if isinstance(p, str)):
        console.print(f"{name} did not run: {reason}", soft_wrap=True)
    if warm := list(dict.fromkeys(row.case_id for row in run.rows if not row.cold)):
        console.print(f"partly from L2, too small to exceed it twice: {', '.join(warm)}", soft_wrap=True)
    if run.rows:
        console.print()
        console.print("cold L2, CUDA graph; error of the last timed call, as a share of what is allowed")
        console.print("of copy: bandwidth over that of torch's copy_ of as many bytes")
        if peers:
            console.print("vs: the peer's time over ours")
    revision = (run.stamp.commit or "no git revision")[:12] + (" and changes" if run.stamp.dirty else "")
    console.print(f"{run.facts.name}, {run.facts.arch}, {run.compiler}, profile {run.profile}, {revision}")


def own_bench_json(run: OwnRun) -> dict[str, Any]:
    return {
        "gpu": run.facts.name,
        "arch": run.facts.arch,
        "driver": run.facts.driver,
        "compiler": run.compiler,
        "profile": run.profile,
        "flags": dict(run.sets),
        "commit": run.stamp.commit,
        "dirty": run.stamp.dirty,
        "interrupted": run.interrupted,
        "lost": run.lost,
        "rows": [
            {
                "variant": row.variant,
                "case": row.case_id,
                **_times(row.series),
                "bytes": row.bytes_moved,
                "tbps": row.tbps,
                "copy": None if row.copy is None else _times(row.copy),
                "copy_share": row.copy_share,
                "error": row.error,
                "slots": row.slots,
                "cold": row.cold,
                "peers": {
                    name: {"reason": peer} if isinstance(peer, str) else _times(peer)
                    for name, peer in row.peers.items()
                },
            }
            for row in run.rows
        ],
        "failures": [
            {"variant": failure.variant, "case": failure.case_id, "reason": failure.reason} for failure in run.failures
        ],
    }


def _numbers(row: OwnRow) -> tuple[str, ...]:
    return (
        format_us(row.series.median_us),
        f"{100 * row.series.noise:.1f}",
        NOTHING if row.tbps is None else f"{row.tbps:.2f}",
        NOTHING if row.copy_share is None else f"{100 * row.copy_share:.1f}",
        f"{row.error:.2f}",
    )


def _ratio(row: OwnRow, name: str) -> str:
    peer = row.peers.get(name)
    return NOTHING if peer is None or isinstance(peer, str) else f"{peer.median_us / row.series.median_us:.2f}×"


def _times(series: Series) -> dict[str, Any]:
    interval = series.interval_us
    return {
        "time_us": series.median_us,
        "low_us": interval.low,
        "high_us": interval.high,
        "noise": series.noise,
        "samples": len(series.samples),
        "stop": series.stop,
        "throttled": series.throttled,
    }
