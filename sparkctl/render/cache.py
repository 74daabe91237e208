"""`sparkctl cache` on screen and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sparkctl.render.console import plain_table
from sparkctl.render.sizes import format_bytes, format_day
from sparkctl.workflows.cache import CacheReport, EdgeHistory, Removal, Verification

if TYPE_CHECKING:
    from rich.console import Console

SHOWN = 10
_MIB = 1 << 20


def show_stats(console: Console, report: CacheReport, *, every: bool) -> None:
    """The totals, then the compiles that took longest; `every` lists all of them."""
    for label, text in _totals(report):
        console.print(f"{label:<10}{text}", soft_wrap=True)
    if not report.edges:
        return
    shown = report.edges if every else report.edges[:SHOWN]
    console.print()
    console.print(_table(shown))
    if left := len(report.edges) - len(shown):
        console.print(f"and {left} that took less: -v lists every one, a KERNEL its own", soft_wrap=True)


def stats_json(report: CacheReport) -> dict[str, Any]:
    """Sizes in bytes, times in seconds."""
    counts = report.counts
    return {
        "command": "cache stats",
        "folder": str(report.folder),
        "remote_storage": report.remote,
        "entries": counts.entries,
        "size_bytes": counts.size_bytes,
        "max_bytes": counts.max_bytes,
        "counted_since": counts.since,
        "hits": {"direct": counts.direct_hits, "preprocessed": counts.preprocessed_hits},
        "misses": counts.misses,
        "hit_rate": round(counts.hits / (counts.hits + counts.misses), 4) if counts.hits + counts.misses else None,
        "failed": counts.failed,
        "uncached": dict(counts.uncached),
        "remote": {"hits": counts.remote_hits, "misses": counts.remote_misses, "errors": counts.remote_errors},
        "savings": asdict(report.savings),
        "edges": [_edge_json(edge) for edge in report.edges],
    }


def show_removal(console: Console, removal: Removal) -> None:
    """What went and what is left."""
    before, after = removal.before, removal.after
    gone, freed = before.entries - after.entries, before.size_bytes - after.size_bytes
    if not before.entries:
        text = "was empty"
    elif not gone:
        text = f"nothing to remove, {_entries(after.entries)} ({format_bytes(after.size_bytes)}) stay"
    else:
        left = f"{after.entries} ({format_bytes(after.size_bytes)}) left"
        text = f"{_entries(gone)} removed, {format_bytes(max(0, freed))} freed, {left}"
    console.print(f"{removal.folder}: {text}", soft_wrap=True)


def removal_json(removal: Removal, command: str) -> dict[str, Any]:
    """Entries and bytes before and after."""
    return {
        "command": command,
        "folder": str(removal.folder),
        "before": {"entries": removal.before.entries, "size_bytes": removal.before.size_bytes},
        "after": {"entries": removal.after.entries, "size_bytes": removal.after.size_bytes},
    }


def show_verification(console: Console, found: Verification) -> None:
    """The damaged entries, one line each, and the count."""
    for path, fault in found.damaged:
        console.print(f"{path.relative_to(found.folder)}: {fault}", soft_wrap=True)
    tail = ", and removed" if found.removed and found.damaged else ""
    text = f"{_entries(found.entries)}, {len(found.damaged) or 'none'} damaged{tail}"
    console.print(f"{found.folder}: {text}", soft_wrap=True)


def verification_json(found: Verification) -> dict[str, Any]:
    """All damaged entries."""
    return {
        "command": "cache verify",
        "folder": str(found.folder),
        "entries": found.entries,
        "damaged": [{"path": str(path), "fault": fault} for path, fault in found.damaged],
        "removed": found.removed,
    }


def _totals(report: CacheReport) -> Iterator[tuple[str, str]]:
    counts, savings = report.counts, report.savings
    yield "folder", f"{report.folder}{' (CCACHE_DIR)' if report.shared else ''}"
    limit = "no limit" if counts.max_bytes is None else f"of {format_bytes(counts.max_bytes)}"
    yield "size", f"{format_bytes(counts.size_bytes)} {limit}, {_entries(counts.entries)}"
    ran = counts.hits + counts.misses
    rate = f" ({100 * counts.hits / ran:.1f} %)" if ran else ""
    since = f" since {format_day(counts.since)}" if counts.since else ""
    yield "hits", f"{counts.hits} of {'1 compile' if ran == 1 else f'{ran} compiles'}{rate}{since}"
    if counts.failed:
        yield "failed", f"{counts.failed} that did not compile"
    if counts.uncached:
        yield "uncached", ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.uncached.items())
    if report.remote or counts.remote_hits or counts.remote_errors:
        errors = f", {counts.remote_errors} errors" if counts.remote_errors else ""
        numbers = f"{counts.remote_hits} hits, {counts.remote_misses} misses{errors}"
        yield "remote", f"{report.remote or 'not set now'}: {numbers}"
    if savings.hits:
        since = f" since {format_day(savings.since)}" if savings.since else ""
        yield "saved", f"{_seconds(savings.saved_s)} of compiling in {savings.hits} hits{since}"


def _table(edges: tuple[EdgeHistory, ...]) -> Any:
    table = plain_table("compile", "for", "time s", "peak MiB", "on", right=("time s", "peak MiB"))
    table.columns[-1].no_wrap = True
    for edge in edges:
        peak = edge.measured.peak_bytes
        table.add_row(
            edge.name,
            f"{edge.backend} {edge.arch} {edge.profile}",
            f"{edge.measured.time_s:.2f}",
            f"{peak / _MIB:.0f}" if peak else "",
            format_day(edge.measured.when),
        )
    return table


def _edge_json(edge: EdgeHistory) -> dict[str, Any]:
    return {
        "name": edge.name,
        "backend": edge.backend,
        "arch": edge.arch,
        "profile": edge.profile,
        **asdict(edge.measured),
    }


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"


def _seconds(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
