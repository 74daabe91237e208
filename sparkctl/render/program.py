"""What a program of one file said, and the verdict."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

from sparkctl.workflows.program import ProgramReport

if TYPE_CHECKING:
    from rich.console import Console

FAULT = "FAIL: "


def show_program(console: Console, report: ProgramReport) -> None:
    """Faults in red, its other lines as they are."""
    for line in report.lines:
        console.print(line, style="red" if line.startswith(FAULT) else "", markup=False, highlight=False)
    if report.left_out:
        console.print(f"and {report.left_out:,} more lines")
    if report.returncode == -signal.SIGSEGV and report.options.sanitizer != "memory":
        console.print("--sanitize memory names the access, if it is a kernel's")
    how = "passed" if report.passed else f"failed: {report.ending}"
    console.print(f"{report.options.path.name}, {title(report)}: {how}", style="green" if report.passed else "bold red")


def title(report: ProgramReport) -> str:
    """`the emulator, sm_90, release, race check`."""
    options = report.options
    check = f", {options.sanitizer} check" if options.sanitizer else ""
    return f"the emulator, {report.arch.name}, {options.profile}{check}"


def program_json(report: ProgramReport) -> dict[str, Any]:
    """For --json."""
    options = report.options
    return {
        "program": str(options.path),
        "built": str(report.program),
        "backend": "emulator",
        "arch": report.arch.name,
        "profile": options.profile,
        "sanitize": options.sanitizer,
        "passed": report.passed,
        "exit_code": report.returncode,
        "faults": [line.removeprefix(FAULT) for line in report.lines if line.startswith(FAULT)],
        "output": list(report.lines),
        "lines_left_out": report.left_out,
    }
