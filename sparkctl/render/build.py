"""`sparkctl build` on screen and as JSON: the report, the dry run, and the progress of a running build."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sparkctl.build.model import BuildResult, EdgeResult, PlanResult, Status
from sparkctl.build.preview import Preview
from sparkctl.render.console import plain_table

if TYPE_CHECKING:
    from rich.console import Console

    from sparkctl.toolchain import CompilerChoice

STATUS_STYLES: dict[Status, str] = {
    "built": "green",
    "cached": "cyan",
    "failed": "bold red",
    "not run": "yellow",
    "up to date": "dim",
}
SLOWEST = 5
_MIB = 1 << 20


def show_build(console: Console, result: BuildResult, *, explain: bool, every: bool) -> None:
    """Every library's table and totals. Edges that are up to date are counted; `every` lists them too."""
    for index, plan in enumerate(result.plans):
        if index:
            console.print()
        _show_plan(console, plan, result, explain=explain, every=every)


def build_json(result: BuildResult) -> dict[str, Any]:
    """The report with all edges; times in seconds, memory in bytes."""
    return {
        "command": "build",
        "ok": result.ok,
        "jobs": result.jobs,
        "jobs_reason": result.jobs_reason,
        "notes": list(result.notes),
        "libraries": [_plan_json(plan, result.jobs) for plan in result.plans],
    }


def preview_text(previews: Sequence[Preview], *, explain: bool) -> Iterator[str]:
    """Shell lines that can be pasted; what is not a command is a comment."""
    for preview in previews:
        links = ["1 library"] * preview.links_library + ["the runner"] * preview.links_runner
        link = f" and {' and '.join(links)} to link" if links else ""
        yield f"# {preview.label}: {preview.compiles} to compile{link}, {preview.up_to_date} up to date"
        if not preview.steps:
            continue
        yield f"cd {shlex.quote(str(preview.cwd))}"
        if preview.environ:
            yield "export " + " ".join(f"{name}={shlex.quote(value)}" for name, value in preview.environ)
        yield f"mkdir -p {shlex.join(preview.folders)}"
        for link, target in preview.links:
            yield f"ln -sfn {shlex.join([target, link])}"
        for step in preview.steps:
            if explain:
                yield f"# {step.name}: {step.reason}"
            yield step.shell


def preview_json(previews: Sequence[Preview]) -> dict[str, Any]:
    """As the text, for programs."""
    return {
        "command": "build --dry-run",
        "libraries": [
            {
                "label": preview.label,
                "cwd": str(preview.cwd),
                "environ": dict(preview.environ),
                "up_to_date": preview.up_to_date,
                "steps": [{"name": step.name, "reason": step.reason, "command": step.shell} for step in preview.steps],
            }
            for preview in previews
        ],
    }


def _show_plan(console: Console, plan: PlanResult, result: BuildResult, *, explain: bool, every: bool) -> None:
    shown = [edge for edge in plan.edges if every or edge.status != "up to date"]
    if shown:
        console.print(_table(shown, explain=explain))
    for line in _totals(plan, result, full=every):
        console.print(line, soft_wrap=True)


def _table(edges: Sequence[EdgeResult], *, explain: bool) -> Any:
    """With reasons there is no room for the rest at 80 columns; the totals still have it."""
    from rich.text import Text

    numbers = ("time s",) if explain else ("time s", "saved s", "peak MiB")
    table = plain_table("variant", "status", *numbers, *(["why"] if explain else []), right=numbers)
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    for edge in edges:
        cells: list[Text | str] = [Text(edge.name), Text(edge.status, style=STATUS_STYLES[edge.status])]
        cells.append(_number(edge.time_s, 2))
        if explain:
            cells.append(Text(edge.reason or "nothing changed"))
        else:
            cells += [_number(edge.saved_s, 2), _number(edge.peak_bytes / _MIB if edge.peak_bytes else None, 0)]
        table.add_row(*cells)
    return table


def _totals(plan: PlanResult, result: BuildResult, *, full: bool) -> Iterator[str]:
    counts = Counter(edge.status for edge in plan.edges)
    parts = [f"{counts[status]} {status}" for status in STATUS_STYLES if counts[status]]
    yield f"{plan.label}: {', '.join(parts)} in {plan.wall_s:.2f} s"
    ran = any(edge.status in ("built", "cached", "failed") for edge in plan.edges)
    if ran or full or plan.compiler.passed_over:
        yield f"  compiler  {_compiler_text(plan.compiler, full=full)}"
    if any(edge.time_s is not None for edge in plan.edges):
        yield f"  jobs      {result.jobs} ({result.jobs_reason})"
    if counts["cached"]:
        yield f"  cache     {_cache_text(plan, result.jobs)}"
    if peaks := [edge.peak_bytes for edge in plan.edges if edge.peak_bytes]:
        yield f"  memory    {max(peaks) / _MIB:.0f} MiB at the peak of the heaviest"
    compiled = [(edge.time_s, edge.name) for edge in plan.edges if edge.status == "built" and edge.time_s is not None]
    for index, (seconds, name) in enumerate(sorted(compiled, reverse=True)[:SLOWEST]):
        yield f"  {'' if index else 'slowest':<10}{seconds:.2f} s  {name}"
    if plan.kept:
        yield f"  kept      {len(plan.kept)} built earlier and still valid"
    if plan.dropped:
        yield f"  dropped   {len(plan.dropped)} built earlier and out of date; building them brings them back"
    for warning in plan.warnings:
        yield f"  {warning}"
    if not plan.failed:
        yield f"  library   {plan.library}"
        if plan.runner:
            yield f"  runner    {plan.runner}"


def _compiler_text(compiler: CompilerChoice, *, full: bool) -> str:
    why = compiler.source
    if full and compiler.reason:
        why += f": {compiler.reason}"
    elif compiler.passed_over:
        why += f"; passed over {', '.join(compiler.passed_over)}"
    return f"{compiler.name} at {compiler.path} ({why})"


def _cache_text(plan: PlanResult, jobs: int) -> str:
    hits = [edge for edge in plan.edges if edge.status == "cached"]
    unknown = sum(edge.saved_s is None for edge in hits)
    text = f"{len(hits)} hit{'s' * (len(hits) > 1)}"
    if unknown == len(hits):
        return f"{text}; what they would have taken was never measured"
    text += f", {sum(edge.saved_s or 0 for edge in hits):.1f} s of compiling saved"
    ratio = times_as_fast(plan, jobs)
    text += f": about {ratio:.{0 if ratio >= 10 else 1}f} times as fast as without the cache"
    return f"{text} ({unknown} never measured)" if unknown else text


def times_as_fast(plan: PlanResult, jobs: int) -> float:
    """An estimate: this build's time and what the hits would have added to it, over this build's time.

    It takes the compiles that were saved as spread evenly over the jobs, but over no more than there were edges to run.
    """
    ran = sum(edge.status in ("built", "cached", "failed") for edge in plan.edges)
    saved = sum(edge.saved_s or 0 for edge in plan.edges) / max(1, min(jobs, ran))
    return (saved + plan.wall_s) / plan.wall_s if plan.wall_s > 0 else 1.0


def _plan_json(plan: PlanResult, jobs: int) -> dict[str, Any]:
    return {
        "label": plan.label,
        "folder": str(plan.folder),
        "compiler": {
            "name": plan.compiler.name,
            "path": str(plan.compiler.path),
            "source": plan.compiler.source,
            "reason": plan.compiler.reason,
            "passed_over": list(plan.compiler.passed_over),
        },
        "cache": {
            "hits": sum(edge.status == "cached" for edge in plan.edges),
            "saved_s": round(sum(edge.saved_s or 0 for edge in plan.edges), 4),
            "times_as_fast": round(times_as_fast(plan, jobs), 2),
        },
        "library": str(plan.library),
        "runner": str(plan.runner) if plan.runner else None,
        "linked": plan.linked,
        "wall_s": round(plan.wall_s, 4),
        "kept": list(plan.kept),
        "dropped": list(plan.dropped),
        "warnings": list(plan.warnings),
        "edges": [
            {
                "name": edge.name,
                "kind": "variant" if edge.is_variant else "support",
                "status": edge.status,
                "time_s": edge.time_s,
                "saved_s": edge.saved_s,
                "peak_bytes": edge.peak_bytes,
                "reason": edge.reason,
                "command": edge.command,
                "exit_code": edge.exit_code,
                "output": edge.output,
            }
            for edge in plan.edges
        ],
    }


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"
