"""How far a test run is: a bar with an estimate on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from sparkctl.testing.model import Case, DecodeCase
from sparkctl.testing.results import Selection
from sparkctl.testing.suite import Outcome
from sparkctl.workflows.suite import SuitePlan

if TYPE_CHECKING:
    from rich.console import Console

LINE_EVERY_S = 10.0
BASE_WORK = 20_000  # of a case beside its scores, in scores: the estimate counts with the work, not with cases


class SuiteProgress:
    """A `sparkctl.workflows.suite.Watcher` on stderr."""

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._bar: Any = None
        self._task: Any = None
        self._cases = self._done = self._failed = self._work = self._total_work = 0
        self._start = self._next_line = 0.0

    def start(self, plan: SuitePlan) -> None:
        """Begin; everything is built."""
        self._cases = plan.num_cases
        self._total_work = sum(work_of(case) for selection in plan.selections for case in selection.cases)
        self._start = time.monotonic()
        self._next_line = self._start + LINE_EVERY_S
        if self._quiet or not self._console.is_terminal:
            return
        from rich.progress import BarColumn, Progress, TextColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[state]}"),
            console=self._console,
            transient=True,
        )
        self._bar.start()
        self._task = self._bar.add_task("", total=self._total_work, state=self._state())

    def case(self, selection: Selection, case: Case, outcome: Outcome) -> None:
        """Count one case."""
        self._done += 1
        self._failed += outcome.failure is not None
        self._work += work_of(case)
        name = selection.variant.name
        if self._bar is not None:
            self._bar.update(self._task, description=name, completed=self._work, state=self._state())
        elif not self._quiet and time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + LINE_EVERY_S
            self._console.print(f"{name}: {self._state()}", soft_wrap=True)

    def stop(self) -> None:
        """All done, or interrupted."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _state(self) -> str:
        failed = f", {self._failed:,} failed" if self._failed else ""
        text = f"{self._done:,} of {self._cases:,} cases{failed}"
        if not self._work:
            return text
        left = (time.monotonic() - self._start) * (self._total_work / self._work - 1)
        return f"{text}, about {left:.0f} s left"


def work_of(case: Case) -> int:
    """What a case costs, in scores."""
    return BASE_WORK + (case.work if isinstance(case, DecodeCase) else 0)
