"""`sparkctl doctor` on screen and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sparkctl.workflows.doctor import Diagnosis
from sparkctl.workflows.finding import Finding

if TYPE_CHECKING:
    from rich.console import Console

_COLORS = {"ok": "green", "absent": "dim", "warning": "yellow", "error": "bold red"}


def show_diagnosis(console: Console, diagnosis: Diagnosis) -> None:
    """A line for each finding; below it where the thing lies, and what helps."""
    from rich.text import Text

    names = max(len(finding.name) for finding in diagnosis.findings)
    for finding in diagnosis.findings:
        head = Text(f"{finding.state:<7}", style=_COLORS[finding.state])
        line = Text.assemble(head, f"  {finding.name:<{names}}  ", finding.what)
        console.print(_hanging(line, names))
        for label, text in (("at", finding.where), ("fix", finding.fix)):
            if text and (label == "at" or finding.state != "ok"):
                style = "bold" if label == "fix" else "dim"
                console.print(_below(Text(f"{label}: {text}", style=style), names))
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


def _hanging(line: Any, names: int) -> Any:
    """Text that folds goes on below its own column."""
    from rich.table import Table

    table = Table.grid(padding=0)
    table.add_column(width=names + 11, no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(line[: names + 11], line[names + 11 :])
    return table


def _below(text: Any, names: int) -> Any:
    from rich.padding import Padding

    return Padding(text, (0, 0, 0, names + 11), expand=False)
