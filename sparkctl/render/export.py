"""What `sparkctl test --export` shows: what was written, what was left out, and how to run it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparkctl.render.test import count
from sparkctl.workflows.export import ExportReport

if TYPE_CHECKING:
    from rich.console import Console

_MIB = 1 << 20


def show_export(console: Console, report: ExportReport) -> None:
    """The whole screen."""
    cases, variants = count(len(report.files), "case"), count(report.variants, "variant")
    console.print(f"{cases} of {variants} in {report.folder}, {report.size_bytes / _MIB:.1f} MiB", soft_wrap=True)
    for skip in report.left_out:
        console.print(f"left out: {skip.case_id}: {skip.reason}", soft_wrap=True)
    if report.others:
        console.print(f"{count(report.others, 'other case file')} there before: the runner takes them too")
    console.print("\nto run them:")
    for command in (report.build_command, report.run_command):
        console.print(f"  {command}", style="cyan", soft_wrap=True)


def export_json(report: ExportReport) -> dict[str, Any]:
    """As the screen, with every file."""
    return {
        "command": "test --export",
        "folder": str(report.folder),
        "variants": report.variants,
        "files": [str(path) for path in report.files],
        "size_bytes": report.size_bytes,
        "left_out": [{"case": skip.case_id, "reason": skip.reason} for skip in report.left_out],
        "others": report.others,
        "build": report.build_command,
        "run": report.run_command,
    }
