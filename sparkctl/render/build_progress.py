"""How far a build is: a bar with an estimate on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

LINE_EVERY_S = 10.0
UNMEASURED_S = 1.5  # a compile never measured; one variant takes about this


class ConsoleProgress:
    """A `sparkctl.build.Progress` on stderr."""

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._bar: Any = None
        self._task: Any = None
        self._label = ""
        self._left: dict[str, float] = {}
        self._total = 0
        self._failed = 0
        self._jobs = 1
        self._next_line = 0.0

    def say(self, text: str) -> None:
        """A message of its own line; -q does not hide it, since it says what is wrong or waited for."""
        self._console.print(text, soft_wrap=True)

    def start(self, label: str, expected: Mapping[str, float | None], jobs: int) -> None:
        """Begin a library."""
        self._label, self._jobs, self._failed, self._total = label, jobs, 0, len(expected)
        self._left = {name: UNMEASURED_S if seconds is None else seconds for name, seconds in expected.items()}
        self._next_line = time.monotonic() + LINE_EVERY_S
        if self._quiet or not self._console.is_terminal:
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            console=self._console,
            transient=True,
        )
        self._bar.start()
        self._task = self._bar.add_task(label, total=self._total, left=self._estimate())

    def edge(self, name: str, ok: bool) -> None:
        """Count one edge."""
        self._left.pop(name, None)
        self._failed += not ok
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done, left=self._estimate())
        elif not self._quiet and time.monotonic() >= self._next_line and self._left:
            self._next_line = time.monotonic() + LINE_EVERY_S
            self._console.print(f"{self._label}: {self._done} of {self._total}, {self._estimate()}", soft_wrap=True)

    def stop(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    @property
    def _done(self) -> int:
        return self._total - len(self._left)

    def _estimate(self) -> str:
        """Work left over the jobs, but never less than the longest edge left."""
        seconds = max([sum(self._left.values()) / self._jobs, *self._left.values()], default=0.0)
        failed = f", {self._failed} failed" if self._failed else ""
        return f"about {max(1, round(seconds))} s left{failed}"
