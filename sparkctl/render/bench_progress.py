"""Which case a benchmark is at: a bar with the time left on a terminal, a line per case elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

FIRST_GUESS_S = 3.0  # of a case, before one has ended: allocation, graphs, warm-up, and rows that are precise early


class CaseProgress:
    """On stderr; `at` is called before each case, `stop` once, whatever happened."""

    def __init__(self, console: Console, *, quiet: bool = False, now: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._quiet = quiet
        self._now = now
        self._bar: Any = None
        self._task: Any = None
        self._began: list[float] = []  # of each case
        self._total = 0

    def at(self, number: int, total: int, label: str) -> None:
        """Case `number` of `total`, counted from 1, begins."""
        if self._quiet:
            return
        if not self._console.is_terminal:
            self._console.print(f"[{number}/{total}] {label}")
            return
        self._began.append(self._now())
        self._total = total
        if self._bar is None:
            self._start(total)
        self._bar.update(self._task, completed=number - 1, description=label)

    def stop(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def left(self) -> str:
        """The estimate that the bar shows."""
        began = self._began
        took = [end - start for start, end in pairwise(began)]
        return format_left(remaining_s(took, self._now() - began[-1], self._total - len(took)))

    def _start(self, total: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn
        from rich.text import Text

        estimate = self.left

        class Left(ProgressColumn):
            def render(self, task: Any) -> Text:
                return Text(estimate())

        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            Left(),
            console=self._console,
            transient=True,
        )
        self._bar.start()
        self._task = self._bar.add_task("", total=total)


def remaining_s(took_s: list[float], in_case_s: float, cases_left: int) -> float:
    """The mean of the cases that ended, for this one and each that follows; a guess before any has."""
    each = sum(took_s) / len(took_s) if took_s else FIRST_GUESS_S
    return max(each - in_case_s, 0.0) + each * (cases_left - 1)


def format_left(seconds: float) -> str:
    """`about 12 s left`, `about 3 min left`."""
    if seconds < 1:
        return "about 1 s left"
    return f"about {seconds:.0f} s left" if seconds < 100 else f"about {seconds / 60:.0f} min left"
