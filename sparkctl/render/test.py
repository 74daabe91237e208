"""What `sparkctl test` shows: the table of kernels, the closest cases, and each failure with its rerun."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparkctl.render.console import PIPE_WIDTH, plain_table
from sparkctl.testing.results import VariantResult
from sparkctl.workflows.rerun import repeat_command, rerun_command
from sparkctl.workflows.suite import SuiteReport

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

SHOWN_FAILURES = 10  # of a kernel; --json and --junit have them all


@dataclass(frozen=True, slots=True)
class KernelRow:
    """One kernel's line, or with -v one variant's."""

    kernel: str
    results: tuple[VariantResult, ...]

    @property
    def cases(self) -> int:
        return sum(result.cases_run for result in self.results)

    @property
    def failed(self) -> int:
        return sum(len(result.failures) for result in self.results)

    @property
    def skipped(self) -> int:
        return sum(len(result.skips) for result in self.results)

    @property
    def worst(self) -> VariantResult:
        return max(self.results, key=lambda result: result.worst)


def kernel_rows(results: Iterable[VariantResult]) -> list[KernelRow]:
    by_kernel: dict[str, list[VariantResult]] = {}
    for result in results:
        by_kernel.setdefault(result.variant.kernel.name, []).append(result)
    return [KernelRow(kernel, tuple(rows)) for kernel, rows in by_kernel.items()]


def variant_rows(results: Iterable[VariantResult]) -> list[KernelRow]:
    return [KernelRow(result.variant.name, (result,)) for result in results]


def show_report(console: Console, report: SuiteReport, *, by_variant: bool = False) -> None:
    """The whole screen; `by_variant` gives each variant its row."""
    rows = kernel_rows(report.results)
    console.print(title(report), style="bold")
    show_rows(console, variant_rows(report.results) if by_variant else rows)
    for text in closest_cases(rows):
        console.print(text)
    for row in rows:
        if row.failed:
            show_failures(console, report, row)
    for text in skips(rows):
        console.print(f"skipped: {text}")
    for result in report.idle:
        reasons = "; ".join(dict.fromkeys(skip.reason for skip in result.skips))
        console.print(f"ran no case: {result.variant.name}: {reasons}", style="yellow")
    if report.plan.without_cases:
        console.print(f"no cases: {', '.join(report.plan.without_cases)}")
    if report.not_run:
        console.print(f"not run, since the device was lost: {', '.join(report.not_run)}", style="red")
    console.print(verdict(rows, report), style="green" if report.passed else "bold red")


def title(report: SuiteReport) -> str:
    plan = report.plan
    by = ", the standalone runner" if report.options.runner else ""
    options = report.options
    check = f", {options.sanitizer} check" if options.sanitizer else ""
    return f"{plan.device}{by}, {plan.arch.name}, {options.profile}{check}, {plan.grid} cases, seed {options.seed}"


def show_rows(console: Console, rows: Iterable[KernelRow]) -> None:
    """A table; where the screen is too narrow for one, a heading and a sentence for each row, broken between words."""
    from rich.measure import Measurement
    from rich.text import Text

    rows = list(rows)
    table = table_of(rows)
    if Measurement.get(console, console.options.update(max_width=PIPE_WIDTH), table).maximum <= console.width:
        console.print(table)
        return
    for row in rows:
        console.print(Text(row.kernel, style="bold", overflow="fold"))
        facts = f"{count(len(row.results), 'variant')}, {count(row.cases, 'case')}, {row.failed:,} failed, "
        facts += f"{row.skipped} skipped, worst error {share(row.worst.worst)}"
        console.print(Text(facts, style="bold red" if row.failed or row.worst.worst > 1 else "", overflow="fold"))


def table_of(rows: Iterable[KernelRow]) -> RenderableType:
    """Errors are shares of what the tolerance rule allows: above 1 fails."""
    from rich.text import Text

    numbers = ("variants", "cases", "failed", "skipped", "worst error")
    table = plain_table("kernel", *numbers, right=numbers)
    for row in rows:
        failed = Text(f"{row.failed:,}", style="bold red" if row.failed else "")
        worst = Text(share(row.worst.worst), style="" if row.worst.worst <= 1 else "bold red")
        table.add_row(row.kernel, str(len(row.results)), f"{row.cases:,}", failed, str(row.skipped), worst)
    return table


def closest_cases(rows: Iterable[KernelRow]) -> list[str]:
    lines = ["", "closest to the limit of 1:"]
    for row in rows:
        if row.worst.worst_case and 0 < row.worst.worst <= 1:
            lines.append(f"  {share(row.worst.worst)}  {row.worst.variant.name}")
            lines.append(f"        {row.worst.worst_case}")
    return lines if len(lines) > 2 else []


def show_failures(console: Console, report: SuiteReport, row: KernelRow) -> None:
    from rich.padding import Padding

    console.print(f"\n{row.kernel}: {count(row.failed, 'case')} failed", style="bold red")
    failures = [(result.variant, failure) for result in row.results for failure in result.failures]
    for variant, failure in failures[:SHOWN_FAILURES]:
        console.print(f"\n  {failure.case_id}", soft_wrap=True)
        console.print(Padding(failure.message, (0, 0, 0, 4)))
        # Never wrapped: it is there to be copied.
        console.print(f"    {rerun_command(report, variant, failure.case_id)}", style="cyan", soft_wrap=True)
    if len(failures) > SHOWN_FAILURES:
        console.print(f"\n  and {len(failures) - SHOWN_FAILURES:,} more; --json and --junit FILE list them all")


def skips(rows: Iterable[KernelRow]) -> list[str]:
    """The kernel, the case, or how many where they have the same reason, and the reason."""
    cases: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for case_id, reason in dict.fromkeys((s.case_id, s.reason) for r in row.results for s in r.skips):
            cases.setdefault((row.kernel, reason), []).append(case_id)
    return [
        f"{kernel} {ids[0]}: {reason}" if len(ids) == 1 else f"{kernel}, {len(ids)} cases: {reason}"
        for (kernel, reason), ids in sorted(cases.items())
    ]


def verdict(rows: list[KernelRow], report: SuiteReport) -> str:
    variants = count(sum(len(row.results) for row in rows), "variant")
    cases = count(sum(row.cases for row in rows), "case")
    repeated = f", each {report.options.repeat} times with the same bits" if report.options.repeat > 1 else ""
    failed = sum(row.failed for row in rows)
    left_out = f", {count(len(report.idle), 'variant')} ran no case" if report.idle else ""
    left_out += f", {' and '.join(report.missed)} asked for by name" if report.missed else ""
    if report.passed and not left_out:
        return f"\n{variants}, {cases}{repeated}: all passed"
    return f"\n{variants}, {cases}: {failed} failed{left_out}"


def report_json(report: SuiteReport) -> dict[str, Any]:
    """`worst_error` is a share of what is allowed; null stands for infinite, as after a NaN or an error."""
    rows = kernel_rows(report.results)
    return {
        "passed": report.passed,
        "backend": report.plan.backend,
        "device": report.plan.device,
        "arch": report.plan.arch.name,
        "profile": report.options.profile,
        "sanitize": report.options.sanitizer,
        "grid": report.plan.grid,
        "seed": report.options.seed,
        "repeat": report.options.repeat,
        "library": str(report.library),
        "library_digest": report.library_digest,
        "compiler": report.compiler,
        "stamp": {"commit": report.stamp.commit, "dirty": report.stamp.dirty},
        "command": repeat_command(report),
        "cases": sum(row.cases for row in rows),
        "failed": sum(row.failed for row in rows),
        "skipped": sum(row.skipped for row in rows),
        "not_run": list(report.not_run),
        "ran_no_case": [result.variant.name for result in report.idle],
        "missed": list(report.missed),
        "without_cases": list(report.plan.without_cases),
        "variants": [variant_json(report, result) for result in report.results],
    }


def variant_json(report: SuiteReport, result: VariantResult) -> dict[str, Any]:
    return {
        "name": result.variant.name,
        "kernel": result.variant.kernel.name,
        "values": dict(result.variant.values),
        "cases": result.cases_run,
        "launches": result.launches,
        "worst_error": result.worst if math.isfinite(result.worst) else None,
        "worst_case": result.worst_case,
        "failures": [
            {
                "case": failure.case_id,
                "message": failure.message,
                "rerun": rerun_command(report, result.variant, failure.case_id),
            }
            for failure in result.failures
        ],
        "skipped": [{"case": skip.case_id, "reason": skip.reason} for skip in result.skips],
        "time_s": round(result.seconds, 3),
    }


def share(error: float) -> str:
    return f"{error:.2f}" if math.isfinite(error) else "∞"


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
