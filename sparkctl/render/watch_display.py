"""Where `sparkctl watch` shows its rounds: one live screen on a terminal, else a block of lines or JSON for each."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from sparkctl.build import Progress
from sparkctl.render.console import Screen, console_on
from sparkctl.render.watch import heading, round_json, round_lines, summary, why_text
from sparkctl.testing.model import Case
from sparkctl.testing.results import Selection
from sparkctl.testing.suite import Outcome
from sparkctl.workflows.suite import SuitePlan, Watcher
from sparkctl.workflows.watch_model import Round, WatchRequest

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.live import Live

ENDS = "Ctrl-C ends"
OTHER_LINES = 8  # of a screen beside the table: heading, causes, tests, state
REFRESHES = 4  # a second


class SilentTests:
    """A Watcher that tells nobody."""

    def start(self, plan: SuitePlan) -> None:
        """Nothing."""

    def case(self, selection: Selection, case: Case, outcome: Outcome) -> None:
        """Nothing."""

    def stop(self) -> None:
        """Nothing."""


class BlockDisplay:
    """A block of lines for each round, whole; or with `json` an object on a line of its own."""

    def __init__(self, console: Console, request: WatchRequest, progress: Progress, *, json: bool) -> None:
        self._console = console
        self._request = request
        self._json = json
        self.progress = progress
        self.tests: Watcher = SilentTests()

    def begin(self, number: int, why: tuple[str, ...]) -> None:
        """Nothing: a block comes when the round is over."""

    def measured(self, found: Round) -> None:
        """Nothing."""

    def end(self, found: Round) -> None:
        """Print and flush."""
        if self._json:
            print(json.dumps(round_json(self._request, found)))
        else:
            if found.number > 1:
                self._console.print()
            print_round(self._console, self._request, found)
        sys.stdout.flush()


class LiveDisplay:
    """One screen that is drawn anew; the terminal's own lines come back when it ends, with the last round below."""

    def __init__(self, console: Console, request: WatchRequest) -> None:
        self._console = console
        self._request = request
        self._number = 1
        self._why: tuple[str, ...] = ()
        self._found: Round | None = None
        self._running = True
        self._state = "reading flags.yaml"
        self._said = ""
        self._began = time.monotonic()
        self.progress: Progress = _BuildState(self)
        self.tests: Watcher = _TestState(self)

    def begin(self, number: int, why: tuple[str, ...]) -> None:
        """What was found before stays until there is something new."""
        self._number, self._why, self._running, self._said = number, why, True, ""
        self._began = time.monotonic()
        self.state("building")

    def measured(self, found: Round) -> None:
        """The numbers; the tests follow."""
        self._found = found
        self.state("building for the emulator")

    def end(self, found: Round) -> None:
        """The round in full."""
        self._found, self._running, self._said = found, False, ""

    def state(self, text: str) -> None:
        """What is going on now."""
        self._state = text

    def say(self, text: str) -> None:
        """A message of the build: whom it waits for, a cache that cannot be used. It stays to the end of the round."""
        self._said = text

    @property
    def last(self) -> Round | None:
        """What the screen showed last."""
        return self._found

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich.text import Text

        yield heading(self._request, self._number)
        if self._found:
            rows = max(3, console.height - OTHER_LINES)
            yield from round_lines(console, self._found, rows=rows)
        if self._said:
            yield Text(self._said, style="yellow")
        if self._running:
            why = f"{why_text(self._why)}: " if self._why else ""
            yield Text(f"{why}{self._state}, {time.monotonic() - self._began:.0f} s; {ENDS}", style="bold cyan")
        elif self._found:
            yield Text(f"{summary(self._found)}; {ENDS}", style="dim")


class _BuildState:
    """A Progress that says how far the build is on the live screen."""

    def __init__(self, display: LiveDisplay) -> None:
        self._display = display
        self._label, self._done, self._total, self._failed = "", 0, 0, 0

    def say(self, text: str) -> None:
        self._display.say(text)

    def start(self, label: str, expected: Mapping[str, float | None], jobs: int) -> None:
        self._label, self._done, self._total, self._failed = label, 0, len(expected), 0
        self._tell()

    def edge(self, name: str, ok: bool) -> None:
        self._done += 1
        self._failed += not ok
        self._tell()

    def stop(self) -> None:
        """The next state takes its place."""

    def _tell(self) -> None:
        failed = f", {self._failed} failed" if self._failed else ""
        self._display.state(f"building {self._label}, {self._done} of {max(self._done, self._total)}{failed}")


class _TestState:
    """A suite's Watcher that says how far the tests are on the live screen."""

    def __init__(self, display: LiveDisplay) -> None:
        self._display = display
        self._done, self._total, self._failed = 0, 0, 0

    def start(self, plan: SuitePlan) -> None:
        self._done, self._total, self._failed = 0, plan.num_cases, 0
        self._tell()

    def case(self, selection: Selection, case: Case, outcome: Outcome) -> None:
        self._done += 1
        self._failed += outcome.failure is not None
        self._tell()

    def stop(self) -> None:
        """The next state takes its place."""

    def _tell(self) -> None:
        failed = f", {self._failed} failed" if self._failed else ""
        self._display.state(f"testing on the emulator, {self._done} of {self._total} cases{failed}")


def print_round(console: Console, request: WatchRequest, found: Round) -> None:
    """A round in full, below what is there."""
    console.print(heading(request, found.number), soft_wrap=not console.is_terminal)
    for line in round_lines(console, found):
        console.print(line)
    console.print(summary(found), style="dim")


@contextmanager
def live_screen(screen: Screen, request: WatchRequest) -> Iterator[LiveDisplay]:
    """The terminal's second screen for as long as it lasts; whatever ends it, the terminal is as before.

    It writes to a descriptor of its own: the tests' harness takes the usual ones away while a case runs.
    """
    from rich.live import Live

    own = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors)
    with own:
        console = console_on(screen, own)
        display = LiveDisplay(console, request)
        live = Live(
            display,
            console=console,
            screen=True,
            refresh_per_second=REFRESHES,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        try:
            with _left_clean_by_signals(live), live:
                yield display
        finally:
            if display.last:
                print_round(console, request, display.last)


@contextmanager
def _left_clean_by_signals(live: Live) -> Iterator[None]:
    """A signal that ends the process gives the terminal back first; Ctrl-C is an exception and needs no help."""

    def end(number: int, frame: FrameType | None) -> None:
        live.stop()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
