"""`sparkctl clean` on screen and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sparkctl.render.console import plain_table
from sparkctl.render.sizes import format_bytes
from sparkctl.workflows.clean import CleanReport, Item

if TYPE_CHECKING:
    from rich.console import Console

SHOWN = 20


def show_clean(console: Console, report: CleanReport, *, every: bool) -> None:
    """What went, what stayed, and the sum; of many items the first ones unless `every`."""
    shown = report.removed if every else report.removed[:SHOWN]
    if shown:
        table = plain_table("would remove" if report.dry_run else "removed", "is", "size", right=("size",))
        for item in shown:
            table.add_row(item.path, item.kind, format_bytes(item.size_bytes))
        console.print(table)
        if left := len(report.removed) - len(shown):
            console.print(f"and {left} more: -v lists them")
    for item in report.kept:
        console.print(f"stays: {item.path} ({item.reason})", soft_wrap=True)
    for item in report.failed:
        console.print(f"not removed: {item.path} ({item.reason})", soft_wrap=True)
    console.print(f"{report.root}: {_sum(report)}", soft_wrap=True)


def clean_json(report: CleanReport) -> dict[str, Any]:
    """Paths below `folder`, sizes in bytes."""
    return {
        "command": "clean",
        "folder": str(report.root),
        "dry_run": report.dry_run,
        "freed_bytes": sum(item.size_bytes for item in report.removed),
        "removed": [_item_json(item) for item in report.removed],
        "kept": [_item_json(item) for item in report.kept],
        "failed": [_item_json(item) for item in report.failed],
    }


def _item_json(item: Item) -> dict[str, Any]:
    data = asdict(item)
    return {**data, "reason": data["reason"] or None}


def _sum(report: CleanReport) -> str:
    if not report.removed:
        return "nothing to remove" if not report.failed else "nothing was removed"
    count = "1 thing" if len(report.removed) == 1 else f"{len(report.removed)} things"
    size = format_bytes(sum(item.size_bytes for item in report.removed))
    return f"{count} to remove, {size}; nothing was touched" if report.dry_run else f"{count} removed, {size} freed"
