"""What `sparkctl watch` is asked for and what one round of it found. Frozen data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from sparkctl.arch import Arch
from sparkctl.build import Progress
from sparkctl.build.diagnostics import Diagnostic, parse_diagnostics
from sparkctl.errors import SparkctlError
from sparkctl.resources import Change, Numbers
from sparkctl.resources.change import Key
from sparkctl.workflows.suite import SuiteReport, Watcher


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """What was asked for; the registry is read anew in each round."""

    project: Path  # the folder with flags.yaml
    patterns: tuple[str, ...]
    archs: tuple[Arch, ...]
    where: Mapping[str, Sequence[str]] = field(default_factory=dict)
    profile: str = "release"
    sets: tuple[str, ...] = ()  # FLAG=VALUE, as given
    cases: int = 8  # of each variant, on the emulator; 0: no tests


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a round ended early, or why nothing was tested."""

    stage: Literal["registry", "build", "emulator"]
    errors: tuple[Diagnostic, ...]  # of compilers
    message: str  # in full
    hint: str | None

    @classmethod
    def of(cls, stage: Literal["registry", "build", "emulator"], error: SparkctlError) -> Problem:
        """From what a workflow raised."""
        return cls(stage, parse_diagnostics(error.message), error.message, error.hint)


@dataclass(frozen=True, slots=True)
class QuickTests:
    """The handful of cases: a report, or why there is none."""

    report: SuiteReport | None = None
    problem: Problem | None = None  # the variants do not compile for the emulator
    note: str | None = None  # nothing to run

    @property
    def ok(self) -> bool:
        """Nothing went wrong; no test at all is not wrong either."""
        return self.problem is None and (self.report is None or self.report.passed)


@dataclass(frozen=True, slots=True)
class Round:
    """One rebuild. With a problem the numbers are those of the last build that went well."""

    number: int
    why: tuple[str, ...]  # `csrc/a.cuh changed`; none in the first round
    build_s: float
    good: int | None  # the round that the numbers are of; None: built before this watch
    changes: tuple[Change, ...]  # against the build before
    since_start: tuple[Change, ...]  # against what was built when the watch began, else against its first good build
    edges: int  # that the compilers or the cache gave
    watched: int  # files; a save of one starts the next round
    problem: Problem | None = None
    left_out: tuple[str, ...] = ()
    tests: QuickTests | None = None  # None: not tested
    test_s: float = 0.0

    @property
    def broken(self) -> bool:
        """Something does not compile, or flags.yaml cannot be read."""
        return self.problem is not None or (self.tests is not None and self.tests.problem is not None)

    @property
    def ok(self) -> bool:
        """It compiles, and no test failed."""
        return self.problem is None and (self.tests is None or self.tests.ok)


@dataclass(frozen=True, slots=True)
class Memory:
    """Numbers of the builds before: of the one to compare the whole watch with, and of the last that went well."""

    start: Mapping[Key, Numbers]
    last: Mapping[Key, Numbers]
    good: int | None = None  # the round of `last`; None: built before this watch


class Display(Protocol):
    """Told how a round goes on, and what came of it."""

    @property
    def progress(self) -> Progress: ...

    @property
    def tests(self) -> Watcher: ...

    def begin(self, number: int, why: tuple[str, ...]) -> None:
        """A round begins."""

    def measured(self, found: Round) -> None:
        """The registers are known, the tests come next."""

    def end(self, found: Round) -> None:
        """A round is over."""
