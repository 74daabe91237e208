"""One round of `sparkctl watch` as lines and tables, and as JSON. The same for a terminal and for a pipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.measure import Measurement
from rich.text import Text

from sparkctl.render.console import PIPE_WIDTH, indented, plain_table
from sparkctl.render.regs_columns import known
from sparkctl.render.regs_vs import STYLES, change_json, describe_change, occupancy_text
from sparkctl.render.test import count, report_json, share
from sparkctl.resources import Change, Numbers
from sparkctl.workflows.watch_model import Problem, QuickTests, Round, WatchRequest

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

ERRORS = 5
LINES = 8  # of an error that is no compiler's
FAILURES = 3
CAUSES = 3
FAR_SHOWN = 6


def heading(request: WatchRequest, number: int) -> Text:
    """What is watched, and which round this is."""
    archs = ", ".join(arch.name for arch in request.archs)
    return Text(f"{' '.join(request.patterns)}, {archs}, {request.profile}: build {number}", style="bold")


def why_text(why: Sequence[str]) -> str:
    """`csrc/a.cuh changed, csrc/b.cuh changed and 2 more`."""
    more = f" and {len(why) - CAUSES} more" if len(why) > CAUSES else ""
    return ", ".join(why[:CAUSES]) + more


def round_lines(console: Console, found: Round, *, rows: int | None = None) -> Iterator[RenderableType]:
    """Everything below the heading. `rows`: at most so many variants; those that changed come first."""
    if found.why:
        yield Text(why_text(found.why))
    if found.problem:
        yield from problem_lines(found.problem)
        if found.changes:
            of = f"build {found.good}, the last that compiled" if found.good else "what was built before"
            yield Text(f"the numbers are of {of}:", style="dim")
    yield from number_lines(console, found.changes, rows=rows)
    if found.problem is None:
        yield from far_lines(found)
        for left in found.left_out:
            yield Text(f"left out: {left}", style="dim")
        if found.tests:
            yield from test_lines(found.tests)


def summary(found: Round) -> str:
    """How long it took and what is watched."""
    parts = [f"built in {found.build_s:.1f} s"] if found.problem is None else [f"stopped after {found.build_s:.1f} s"]
    parts += [f"tested in {found.test_s:.1f} s"] if found.tests and found.tests.report else []
    ran = f"{count(found.edges, 'object')} made" if found.edges else "every object was up to date"
    return f"{', '.join(parts)}; {ran}; {count(found.watched, 'file')} watched"


def problem_lines(problem: Problem) -> Iterator[Text]:
    """The first few of the compilers' errors; of any other error its first lines."""
    titles = {
        "registry": "flags.yaml is not usable:",
        "build": "does not compile:" if problem.errors else "was not built:",
        "emulator": "does not compile for the emulator:" if problem.errors else "was not built for the emulator:",
    }
    yield Text(titles[problem.stage], style="bold red")
    if problem.errors:
        for error in problem.errors[:ERRORS]:
            yield Text(f"  {error}", overflow="fold")
        if len(problem.errors) > ERRORS:
            yield Text(f"  and {len(problem.errors) - ERRORS} more")
    else:
        lines = problem.message.splitlines()
        for line in lines[:LINES]:
            yield Text(f"  {line}", overflow="fold")
        if len(lines) > LINES:
            yield Text(f"  and {len(lines) - LINES} more lines")
    if problem.hint:
        yield Text(f"  {problem.hint}", style="dim", overflow="fold")


def number_lines(console: Console, changes: Sequence[Change], *, rows: int | None) -> Iterator[RenderableType]:
    """A table for each kernel, `before→after` where a number changed; sentences where the screen is too narrow."""
    ordered = list(changes)
    if rows is not None and len(ordered) > rows:
        ordered.sort(key=lambda change: change.verdict == "same")
    shown = ordered[:rows]
    several = len({change.arch for change in changes}) > 1
    by_kernel: dict[str, list[Change]] = {}
    for change in shown:
        by_kernel.setdefault(change.name.partition(".")[0], []).append(change)
    for kernel, group in by_kernel.items():
        table = _table(kernel, group, several=several)
        if Measurement.get(console, console.options.update(max_width=PIPE_WIDTH), table).maximum <= console.width:
            yield table
            continue
        for change in group:
            yield Text(f"{change.name} {change.arch}", style="bold", overflow="fold")
            yield indented(Text(describe_change(change) or "unchanged", style=STYLES.get(change.verdict, "")))
    if hidden := ordered[len(shown) :]:
        same = sum(change.verdict == "same" for change in hidden)
        yield Text(f"and {count(len(hidden), 'variant')} more, {same} unchanged", style="dim")


def far_lines(found: Round) -> Iterator[Text]:
    """What the whole watch has changed, where that is more than the last save did."""
    last = {(change.name, change.arch): change.differences for change in found.changes}
    far = [change for change in found.since_start if change.verdict not in ("same", "new", "gone")]
    far = [change for change in far if change.differences != last.get((change.name, change.arch))]
    if not far:
        return
    yield Text("since the start:")
    for change in far[:FAR_SHOWN]:
        where = f" {change.arch}" if len({one.arch for one in found.changes}) > 1 else ""
        style = STYLES.get(change.verdict, "")
        yield Text(f"  {change.name}{where}: {describe_change(change)}", style=style, overflow="fold")
    if len(far) > FAR_SHOWN:
        yield Text(f"  and {len(far) - FAR_SHOWN} more")


def test_lines(tests: QuickTests) -> Iterator[Text]:
    """One line where all is well; else the first failures and how to run them all."""
    if tests.problem:
        yield from problem_lines(tests.problem)
        return
    if tests.report is None:
        yield Text(f"not tested: {tests.note}", style="yellow")
        return
    results = tests.report.results
    cases = sum(result.cases_run for result in results)
    failures = [(result.variant.name, failure) for result in results for failure in result.failures]
    skipped = sum(len(result.skips) for result in results)
    worst = max((result.worst for result in results), default=0.0)
    of = f"{count(cases, 'quick case')} of {count(len(results), 'variant')} on the emulator"
    of += f", {skipped} skipped" if skipped else ""
    if not failures:
        verdict = f"passed; the worst error is {share(worst)} of what is allowed" if cases else "none ran"
        yield Text(f"tests: {of}: {verdict}", style="green" if tests.report.passed else "bold red")
        return
    yield Text(f"tests: {of}: {len(failures)} failed", style="bold red")
    for name, failure in failures[:FAILURES]:
        yield Text(f"  {name} {failure.case_id}", overflow="fold")
        yield Text(f"    {failure.message}", overflow="fold")
    if len(failures) > FAILURES:
        yield Text(f"  and {len(failures) - FAILURES} more")
    names = " ".join(tests.report.options.patterns)
    yield Text(f"  sparkctl test {names} --backend emulator --last-failed", style="cyan", overflow="fold")


def round_json(request: WatchRequest, found: Round) -> dict[str, Any]:
    """One object a round."""
    tests = found.tests
    return {
        "schema_version": 1,
        "command": "watch",
        "kernels": list(request.patterns),
        "round": found.number,
        "ok": found.ok,
        "why": list(found.why),
        "problem": _problem_json(found.problem),
        "numbers_of_round": found.good,
        "changes": [change_json(change) for change in found.changes],
        "since_start": [change_json(change) for change in found.since_start],
        "left_out": list(found.left_out),
        "tests": None if tests is None or tests.report is None else report_json(tests.report),
        "tests_problem": _problem_json(tests.problem) if tests else None,
        "tests_note": tests.note if tests else None,
        "objects_made": found.edges,
        "files_watched": found.watched,
        "build_s": round(found.build_s, 3),
        "test_s": round(found.test_s, 3),
    }


def _problem_json(problem: Problem | None) -> dict[str, Any] | None:
    if problem is None:
        return None
    errors = [{"file": error.file, "line": error.line, "text": error.text} for error in problem.errors]
    return {"stage": problem.stage, "errors": errors, "message": problem.message, "hint": problem.hint}


def _table(kernel: str, group: Sequence[Change], *, several: bool) -> RenderableType:
    numbers = ("regs", "spills B", "smem B", "blocks/SM", "occupancy %")
    table = plain_table(kernel, *(["arch"] if several else []), *numbers, right=numbers)
    for change in group:
        rest = change.name.partition(".")[2] or change.name
        cells = [Text(rest), *([Text(change.arch)] if several else [])]
        verdicts = {one.field: one.direction for one in change.differences}
        for fields, text in CELLS:
            old, new = (None if one is None else text(one, change.arch) for one in (change.old, change.new))
            loud = next((STYLES[verdicts[field]] for field in fields if field in verdicts), "")
            if new is None:
                cells.append(Text("gone", style=STYLES["gone"]))
            else:
                cells.append(Text(new if old in (None, new) else f"{old}→{new}", style=loud))
        table.add_row(*cells)
    return table


def _spills(numbers: Numbers, arch: str) -> str:
    stores, loads = numbers.spill_store_bytes, numbers.spill_load_bytes
    return f"!{stores}/{loads}" if stores or loads else known(stores)


def _smem(numbers: Numbers, arch: str) -> str:
    """Static and dynamic together."""
    static = numbers.static_smem_bytes
    return "–" if static is None else str(static + numbers.dynamic_smem_bytes)


CELLS = (
    (("registers",), lambda numbers, arch: str(numbers.registers)),
    (("spill_store_bytes", "spill_load_bytes"), _spills),
    (("static_smem_bytes", "dynamic_smem_bytes"), _smem),
    (("blocks_per_sm", "warps_per_sm"), lambda numbers, arch: known(numbers.blocks_per_sm)),
    (("warps_per_sm",), occupancy_text),
)
