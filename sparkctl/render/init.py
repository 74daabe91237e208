"""What `sparkctl init` wrote, as text and as JSON."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from sparkctl.render.console import indented, plain_table, shown_path

if TYPE_CHECKING:
    from rich.console import RenderableType

    from sparkctl.workflows.init_model import InitReport


def render_init(report: InitReport) -> RenderableType:
    """A row for each kernel, what was found out, what was left out, and what to run next."""
    from rich.console import Group
    from rich.text import Text

    tree = report.tree
    table = plain_table("kernel", "source", "functions", "block", "library", right=("functions", "block"))
    for kernel in tree.kernels:
        block = "–" if kernel.block_threads is None else str(kernel.block_threads)
        held = "yes" if kernel.link else f"no: {kernel.why_alone}"
        table.add_row(kernel.name, kernel.source, str(len(kernel.functions)), block, held)
    blocks: list[RenderableType] = [table]
    lines = [*report.notes, *(f"{source}: no kernel in it; linked with the others" for source in tree.helpers)]
    blocks += [indented(Text(line)) for line in lines]
    for rejected in report.rejected:
        blocks.append(Text.assemble("left out  ", (rejected.source, "bold"), f": {rejected.why}"))
        blocks += [indented(Text(rejected.said))] if rejected.said else []
    if report.link_error:
        blocks += [Text("the library does not link; link: false keeps a kernel out of it", style="bold")]
        blocks += [indented(Text(report.link_error))]
    archs = ", ".join(arch.name for arch in report.compiled_for)
    kernels = "1 kernel" if len(tree.kernels) == 1 else f"{len(tree.kernels)} kernels"
    blocks += ["", Text(f"wrote {shown_path(report.path)}: {kernels}, compiled for {archs}")]
    next_steps = plain_table("", "")
    next_steps.show_header = False
    for command, why in _next_steps(report):
        next_steps.add_row(command, why)
    return Group(*blocks, indented(next_steps))


def init_json(report: InitReport) -> dict[str, Any]:
    tree = report.tree
    return {
        "path": str(report.path),
        "archs": [arch.name for arch in report.compiled_for],
        "nvcc": list(tree.options),
        "kernels": [
            {
                "name": kernel.name,
                "source": kernel.source,
                "functions": list(kernel.functions),
                "min_arch": kernel.min_arch.name,
                "block_threads": kernel.block_threads,
                "link": kernel.link,
            }
            for kernel in tree.kernels
        ],
        "helpers": list(tree.helpers),
        "left_out": [{"source": r.source, "why": r.why, "said": r.said} for r in report.rejected],
        "notes": list(report.notes),
        "link_error": report.link_error or None,
        "passed": report.passed,
    }


def _next_steps(report: InitReport) -> list[tuple[str, str]]:
    folder = os.path.relpath(report.path.parent)
    steps = [(f"cd {folder}", "")] if folder != "." else []
    if any(kernel.block_threads is None for kernel in report.tree.kernels):
        steps.append(("block: N in flags.yaml", "threads per block: regs then has the occupancy"))
    steps.append(("sparkctl regs", "registers, spills, shared memory"))
    steps.append(("sparkctl regs --update", "pin them; sparkctl regs --check in CI fails on a change"))
    return steps
