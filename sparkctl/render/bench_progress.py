"""Which case a benchmark is at: a bar with the time left on a terminal, a line per case elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


class CaseProgress:
    """On stderr; `at` is called before each case, `stop` once, whatever happened."""

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._bar: Any = None
        self._task: Any = None

    def at(self, number: int, total: int, label: str) -> None:
        """Case `number` of `total`, counted from 1, begins."""
        if self._quiet:
            return
        if not self._console.is_terminal:
            self._console.print(f"[{number}/{total}] {label}")
            return
        if self._bar is None:
            self._start(total)
        self._bar.update(self._task, completed=number - 1, description=label)

    def stop(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _start(self, total: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
        )
        self._bar.start()
        self._task = self._bar.add_task("", total=total)
