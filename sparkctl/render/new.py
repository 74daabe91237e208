"""What `sparkctl new` wrote, as text and as JSON."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from sparkctl.render.console import indented, plain_table, shown_path

if TYPE_CHECKING:
    from rich.console import RenderableType

    from sparkctl.workflows.new import NewReport


def render_new(report: NewReport) -> RenderableType:
    """The files, and what to run next."""
    from rich.console import Group
    from rich.text import Text

    folder = report.registry.parent
    lines = [Text(f"wrote {shown_path(path)}") for path in report.files]
    entry = "made" if report.registry_made else "one entry more"
    entry += ", emulator: true added" if report.emulator_added else ""
    lines.append(Text(f"wrote {shown_path(report.registry)}: {entry}"))
    if report.copied:
        lines.append(Text(f"a copy of {report.copied}, with its cases"))
    inside = os.path.realpath(".").startswith(os.path.realpath(folder))
    project = "" if inside else f"--project {shown_path(folder)} "
    steps = plain_table("", "")
    steps.show_header = False
    steps.add_row(f"sparkctl {project}test {report.name}", "against the reference, on a GPU or the emulator")
    steps.add_row(f"sparkctl {project}regs {report.name}", "registers, spills, occupancy")
    steps.add_row(f"sparkctl {project}test {report.name} -v", "each variant's result")
    return Group(*lines, "", indented(steps))


def new_json(report: NewReport) -> dict[str, Any]:
    return {
        "kernel": report.name,
        "registry": str(report.registry),
        "registry_made": report.registry_made,
        "emulator_added": report.emulator_added,
        "files": [str(path) for path in report.files],
        "copied": report.copied,
    }
