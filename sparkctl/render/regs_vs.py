"""Register reports side by side: what changed for each kernel and arch, and the ratchet's verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from sparkctl.arch import limits_for, parse_arch
from sparkctl.render.regs import failing_tests, test_summary
from sparkctl.render.regs_columns import known, percent_text
from sparkctl.resources import Change, Numbers
from sparkctl.workflows.regs_pins import PinCheck, Waiver
from sparkctl.workflows.regs_vs import RegsComparison, describe_build

if TYPE_CHECKING:
    from rich.console import Console

NAMES = {
    "registers": "registers",
    "spill_store_bytes": "spill stores B",
    "spill_load_bytes": "spill loads B",
    "stack_bytes": "stack B",
    "static_smem_bytes": "static smem B",
    "dynamic_smem_bytes": "dynamic smem B",
    "barriers": "barriers",
    "blocks_per_sm": "blocks/SM",
    "warps_per_sm": "warps/SM",
}
STYLES = {"worse": "bold red", "gone": "bold red", "moved": "bold yellow", "new": "bold yellow", "better": "bold green"}


def show_comparison(console: Console, comparison: RegsComparison, *, every: bool) -> None:
    """A heading for each kernel that changed, below it a line for each arch; with `every` the others too."""
    console.print(Text(f"{comparison.old} → this tree", style="bold"))
    shown = comparison.changes if every else comparison.changed
    if shown:
        console.print()
        _print_changes(console, [(change, change.verdict) for change in shown])
    console.print()
    for note in comparison.notes:
        console.print(Text(note))
    console.print(Text(count_line(comparison)))
    for line in (*failing_tests(comparison.report), *test_summary(comparison.report)):
        console.print(line)
    console.print(Text(build_line(comparison), style="dim"))


def show_check(console: Console, check: PinCheck) -> None:
    """What differs from the pins, what is waived and until when, and how to pin anew."""
    if check.differences:
        _print_changes(
            console, [(one.change, "waived" if one.waived else one.change.verdict) for one in check.differences]
        )
        console.print()
    for line in (*waiver_lines(check), verdict_line(check)):
        console.print(Text(line))
    console.print(Text(f"{check.report.compiler}, profile {check.report.profile}", style="dim"))


def comparison_markdown(comparison: RegsComparison, *, every: bool) -> str:
    """A table for a pull request."""
    shown = comparison.changes if every else comparison.changed
    rows = [_markdown_row(change, change.verdict) for change in shown]
    tests = [line.plain for line in (*failing_tests(comparison.report), *test_summary(comparison.report))]
    counts = f"{comparison.old} → this tree: {count_line(comparison)}"
    below = [*comparison.notes, counts, *tests, build_line(comparison)]
    return "\n".join([*_markdown_head(), *rows, "", *below] if rows else below)


def check_markdown(check: PinCheck) -> str:
    """A table for a pull request."""
    rows = [_markdown_row(o.change, "waived" if o.waived else o.change.verdict) for o in check.differences]
    below = [*waiver_lines(check), verdict_line(check), f"{check.report.compiler}, profile {check.report.profile}"]
    return "\n".join([*_markdown_head(), *rows, "", *below] if rows else below)


def comparison_json(comparison: RegsComparison) -> dict[str, Any]:
    """Every kernel, the same ones too."""
    return {
        "command": "regs --vs",
        "old": comparison.old,
        "old_compiler": comparison.old_compiler,
        "compiler": comparison.report.compiler,
        "profile": comparison.report.profile,
        "sets": dict(comparison.report.sets),
        "archs": [str(arch) for arch in comparison.report.archs],
        "notes": list(comparison.notes),
        "changes": [change_json(change) for change in comparison.changes],
    }


def check_json(check: PinCheck) -> dict[str, Any]:
    """What differs; what is as pinned is only counted."""
    return {
        "command": "regs --check",
        "passed": check.passed,
        "compiler": check.report.compiler,
        "archs": [str(arch) for arch in check.report.archs],
        "compared": check.compared,
        "differences": [
            {
                **change_json(judged.change),
                "waived": judged.waived,
                "waivers": [_waiver_json(waiver) for waiver in (*judged.waivers, *judged.expired)],
            }
            for judged in check.differences
        ],
        "unused_waivers": [_waiver_json(waiver) for waiver in check.unused],
        "update": check.update,
    }


def describe_change(change: Change) -> str:
    """`registers 197 → 128, spill stores B 0 → 112, occupancy 12.5 → 18.8 %`."""
    numbers = change.new or change.old
    if change.old is None or change.new is None:
        assert numbers is not None
        return _describe(numbers, change.arch)
    parts = []
    for difference in change.differences:
        if difference.field == "warps_per_sm":
            old, new = (occupancy_text(one, change.arch) for one in (change.old, change.new))
            blocks = f"{known(change.old.blocks_per_sm)} → {known(change.new.blocks_per_sm)}"
            parts.append(f"blocks/SM {blocks} (occupancy {old} → {new} %)")
        else:
            parts.append(f"{NAMES[difference.field]} {known(difference.old)} → {known(difference.new)}")
    fields = {difference.field for difference in change.differences}
    if change.verdict == "moved" and not fields & {"blocks_per_sm", "warps_per_sm"}:  # what the trade bought: nothing
        parts.append(
            f"still blocks/SM {known(change.new.blocks_per_sm)} (occupancy {occupancy_text(change.new, change.arch)} %)"
        )
    before, after = change.old.limiters, change.new.limiters
    if before and after and before != after:
        parts.append(f"limiter {_limiters(before)} → {_limiters(after)}")
    return ", ".join(parts) or _describe(change.new, change.arch)


def count_line(comparison: RegsComparison) -> str:
    """`2 of 24 changed: 1 better, 1 moved`."""
    changed = comparison.changed
    verdicts = [change.verdict for change in changed]
    words = [f"{verdicts.count(v)} {v}" for v in ("worse", "moved", "better", "new", "gone") if v in verdicts]
    total = len(comparison.changes)
    if not changed:
        return f"{total} kernel{'' if total == 1 else 's'} compared: nothing changed"
    return f"{len(changed)} of {total} changed: {', '.join(words)}"


def build_line(comparison: RegsComparison) -> str:
    report = comparison.report
    sets = "".join(f", {name}={value}" for name, value in report.sets.items())
    same = comparison.old_compiler in (report.compiler, describe_build(report))
    other = "" if same else f" (before: {comparison.old_compiler})"
    return f"{report.compiler}{other}, profile {report.profile}{sets}"


def waiver_lines(check: PinCheck) -> Iterator[str]:
    """Each waiver once: those that held, that have expired, that cover nothing."""
    held = dict.fromkeys(waiver for judged in check.differences for waiver in judged.waivers)
    expired = dict.fromkeys(waiver for judged in check.failures for waiver in judged.expired)
    for waiver in held:
        yield f"waived until {waiver.expires} by {waiver.place}: {waiver.what} of {waiver.variant}: {waiver.reason}"
    for waiver in expired:
        yield f"! the waiver of {waiver.place} for {waiver.what} of {waiver.variant} expired on {waiver.expires}"
    for waiver in check.unused:
        yield f"! the waiver of {waiver.place} for {waiver.what} of {waiver.variant} covers nothing: remove it"


def verdict_line(check: PinCheck) -> str:
    failed, waived = len(check.failures), len(check.differences) - len(check.failures)
    note = f", {waived} waived" if waived else ""
    if check.passed:
        return f"{check.compared} kernels compared: as pinned{note}"
    if not failed:
        return f"{check.compared} kernels compared: as pinned{note}, but for the waivers above"
    return f"{failed} of {check.compared} differ from what is pinned{note}: {check.update} pins them"


def _print_changes(console: Console, changes: Sequence[tuple[Change, str]]) -> None:
    """Kernels as they first appear, the archs of each below it."""
    by_name: dict[str, list[tuple[Change, str]]] = {}
    for change, verdict in changes:
        by_name.setdefault(change.name, []).append((change, verdict))
    width = max(len(change.arch) for change, _ in changes)
    for name, group in by_name.items():
        console.print(Text(name, style="bold"), soft_wrap=True)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
        table.add_column(no_wrap=True, width=width + 2)
        table.add_column(no_wrap=True, width=6)
        table.add_column(overflow="fold")
        for change, verdict in group:
            style = STYLES.get(verdict, "")
            table.add_row(Text(f"  {change.arch}"), Text(verdict, style=style), Text(describe_change(change)))
        console.print(table)


def _describe(numbers: Numbers, arch: str) -> str:
    spills = ""
    if numbers.spill_store_bytes or numbers.spill_load_bytes:
        spills = f", !spills {numbers.spill_store_bytes}/{numbers.spill_load_bytes} B"
    smem = f"{known(numbers.static_smem_bytes)} + {numbers.dynamic_smem_bytes} B smem"
    occupied = f"{known(numbers.blocks_per_sm)} blocks/SM ({occupancy_text(numbers, arch)} %)"
    return f"{numbers.registers} registers{spills}, {smem}, {occupied}"


def _limiters(names: Sequence[str]) -> str:
    return " + ".join(name.replace("_", " ") for name in names)


def occupancy_text(numbers: Numbers, arch: str) -> str:
    if numbers.warps_per_sm is None:
        return "–"
    return percent_text(100 * numbers.warps_per_sm / limits_for(parse_arch(arch)).warps_per_sm)


def _markdown_head() -> Iterable[str]:
    return ("| variant | arch | | what changed |", "| --- | --- | --- | --- |")


def _markdown_row(change: Change, verdict: str) -> str:
    return f"| {change.name} | {change.arch} | {verdict} | {describe_change(change)} |"


def change_json(change: Change) -> dict[str, Any]:
    return {
        "name": change.name,
        "arch": change.arch,
        "verdict": change.verdict,
        "old": None if change.old is None else asdict(change.old),
        "new": None if change.new is None else asdict(change.new),
        "differences": [
            {"field": one.field, "old": one.old, "new": one.new, "direction": one.direction}
            for one in change.differences
        ],
    }


def _waiver_json(waiver: Waiver) -> dict[str, Any]:
    return {**asdict(waiver), "expires": waiver.expires.isoformat()}
