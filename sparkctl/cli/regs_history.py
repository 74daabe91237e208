"""`sparkctl regs --vs`, `--save`, `--check` and `--update`: a report beside another one."""

from __future__ import annotations

import datetime
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import typer

if TYPE_CHECKING:
    from sparkctl.cli.options import CliContext
    from sparkctl.registry import Registry
    from sparkctl.toolchain import Toolchain
    from sparkctl.workflows.regs_model import RegsReport
    from sparkctl.workflows.regs_vs import Selected

Form = Literal["table", "json", "csv", "markdown"]


@dataclass(frozen=True, slots=True)
class RegsHistory:
    """What was asked for; each method is one option."""

    cli: CliContext
    registry: Registry
    selected: Selected
    toolchain: Toolchain

    def compare(self, report: RegsReport, name: str, form: Form) -> None:
        """Show what changed."""
        from sparkctl.render.build_progress import ConsoleProgress
        from sparkctl.render.console import print_json, stderr_console, stdout_console
        from sparkctl.render.regs_vs import comparison_json, comparison_markdown, show_comparison
        from sparkctl.workflows.regs_vs import compare_regs

        comparison = compare_regs(
            self.registry,
            report,
            self.selected,
            name,
            toolchain=self.toolchain,
            environ=os.environ,
            progress=ConsoleProgress(stderr_console(self.cli), quiet=self.cli.verbosity < 0),
        )
        every = self.cli.verbosity > 0
        if form == "json":
            print_json(comparison_json(comparison))
        elif form == "markdown":
            print(comparison_markdown(comparison, every=every))
        else:
            show_comparison(stdout_console(self.cli), comparison, every=every)

    def check(self, report: RegsReport, form: Form) -> None:
        """Exit 1 where anything differs."""
        from sparkctl.render.console import print_json, stdout_console
        from sparkctl.render.regs_vs import check_json, check_markdown, show_check
        from sparkctl.workflows.regs_pins import check_pins
        from sparkctl.workflows.regs_vs import numbers_of

        outcome = check_pins(
            self.registry,
            report,
            numbers_of(report),
            selection=self._selection,
            today=datetime.date.today(),
            environ=os.environ,
        )
        if form == "json":
            print_json(check_json(outcome))
        elif form == "markdown":
            print(check_markdown(outcome))
        else:
            show_check(stdout_console(self.cli), outcome)
        if not outcome.passed:
            raise typer.Exit(1)

    def update(self, report: RegsReport) -> None:
        """Pin the report."""
        from sparkctl.render.console import stdout_console
        from sparkctl.workflows.regs_pins import FOLDER, update_pins
        from sparkctl.workflows.regs_vs import numbers_of

        changed = update_pins(self.registry, report, numbers_of(report), selection=self._selection, environ=os.environ)
        count = f"{len(report.rows)} kernel{'' if len(report.rows) == 1 else 's'}"
        files = ", ".join(str(FOLDER / path.name) for path in changed)
        stdout_console(self.cli).print(f"{count} pinned: {files or 'nothing changed'}", soft_wrap=True)

    def save(self, report: RegsReport, name: str) -> None:
        """Keep the report for --vs."""
        from sparkctl.render.console import stderr_console
        from sparkctl.workflows.regs_vs import save_report

        save_report(self.registry, report, name, os.environ)
        if self.cli.verbosity >= 0:
            stderr_console(self.cli).print(f"saved: sparkctl regs --vs {name} compares with it", soft_wrap=True)

    @property
    def _selection(self) -> tuple[str, ...]:
        """As it could be typed again."""
        where = [f"{axis}={','.join(values)}" for axis, values in self.selected.where.items()]
        return (*self.selected.patterns, *(word for item in where for word in ("--where", item)))
