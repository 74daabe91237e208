"""`sparkctl doctor` on screen and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sparkctl.workflows.doctor import Diagnosis
from sparkctl.workflows.finding import Finding

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_COLORS = {"ok": "green", "absent": "dim", "warning": "yellow", "error": "bold red"}


def show_diagnosis(console: Console, diagnosis: Diagnosis) -> None:
    """A line for each finding; below it where the thing lies, and what helps."""
    from rich.text import Text

    indent = max(len(finding.name) for finding in diagnosis.findings) + 11
    for finding in diagnosis.findings:
        head = Text.assemble((f"{finding.state:<7}", _COLORS[finding.state]), f"  {finding.name}")
        console.print(_hanging(head, finding.what, indent))
        for label, text, style in (("at", finding.where, "dim"), ("fix", finding.fix, "bold")):
            if text:  # as one line: paths and commands are there to be copied
                console.print(Text(f"{'':<{indent}}{label}: {text}", style=style), soft_wrap=True)
    console.print()
    console.print(Text(verdict(diagnosis)))


def verdict(diagnosis: Diagnosis) -> str:
    """The last line."""
    count = diagnosis.warnings
    warned = {0: "", 1: "; 1 warning"}.get(count, f"; {count} warnings")
    if diagnosis.missing:
        return f"build, regs and test cannot run here, for want of: {', '.join(diagnosis.missing)}{warned}"
    device = any(finding.name == "driver" for finding in diagnosis.findings)
    return f"build, regs and test can run here{'' if device else ', the tests on the emulator'}{warned}"


def diagnosis_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """Everything that the screen shows."""
    return {
        "command": "doctor",
        "can_run": not diagnosis.missing,
        "missing": list(diagnosis.missing),
        "findings": [_finding_json(finding) for finding in diagnosis.findings],
    }


def _finding_json(finding: Finding) -> dict[str, Any]:
    data = asdict(finding)
    return {**data, "where": data["where"] or None}


def _hanging(head: Text, text: str, indent: int) -> Table:
    """`text` beside `head`; what folds goes on in its own column."""
    from rich.table import Table

    table = Table.grid(padding=0)
    table.add_column(width=indent, no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(head, text)
    return table
