"""Which part a proof is at: a line for each part, and inside it the progress of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkctl.render.bench_progress import CaseProgress
from sparkctl.render.build_progress import ConsoleProgress
from sparkctl.render.suite_progress import SuiteProgress
from sparkctl.workflows.proof_gate import PARTS, Part

if TYPE_CHECKING:
    from rich.console import Console


class ProofProgress:
    """A `sparkctl.workflows.proof.ProofWatcher` on stderr; `finished` and `at` say how far it came."""

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self.suite = SuiteProgress(console, quiet=quiet)
        self.build = ConsoleProgress(console, quiet=quiet)
        self.finished: list[Part] = []
        self.at: str | None = None
        self._console = console
        self._quiet = quiet
        self._cases = CaseProgress(console, quiet=quiet)

    def begin(self, part: Part) -> None:
        """A part starts."""
        self.at = None
        if not self._quiet:
            self._console.print(f"{part}, part {PARTS.index(part) + 1} of {len(PARTS)}", soft_wrap=True)

    def case(self, number: int, total: int, label: str) -> None:
        """An arm of accuracy or a case of the benchmark starts."""
        self.at = f"{number} of {total}, {label}"
        self._cases.at(number, total, label)

    def end(self, part: Part) -> None:
        """A part is done."""
        self.stop()
        self.at = None
        self.finished.append(part)

    def stop(self) -> None:
        """Take the bar away."""
        self._cases.stop()
