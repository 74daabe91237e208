"""What one `sparkctl test` is asked for, what it plans and what it found. Frozen data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from sparkctl.arch import Arch
from sparkctl.bench.results import Stamp
from sparkctl.build import Sanitizer
from sparkctl.runtime.manifest import Backend
from sparkctl.testing.model import Case, Grid
from sparkctl.testing.results import Selection, VariantResult
from sparkctl.testing.suite import Outcome

Schedule = Literal["ascending", "descending", "random"]
AsyncMode = Literal["late", "early", "random"]
UNKNOWN_STAMP = Stamp(None, None)


@dataclass(frozen=True, slots=True)
class SuiteOptions:
    """What was asked for; the defaults are those of a bare `sparkctl test`."""

    patterns: tuple[str, ...] = ()
    where: Mapping[str, Sequence[str]] = field(default_factory=dict)
    groups: tuple[int, ...] = ()
    backend: Backend | Literal["auto"] = "auto"
    arch: Arch | None = None
    profile: str = "release"
    sets: Mapping[str, str] = field(default_factory=dict)
    expression: str | None = None
    full: bool = False
    last_failed: bool = False
    seed: int = 0
    repeat: int = 1
    schedule: Schedule | None = None
    async_mode: AsyncMode | None = None
    junit: Path | None = None
    runner: bool = False  # the standalone one runs the cases
    sanitizer: Sanitizer | None = None  # what its build checks beside results; it always runs in the runner
    most: int | None = None  # no more cases of a variant: a handful that stands for the others
    limit_s: float | None = None  # for a case in the standalone runner
    export: Path | None = None  # nothing runs: the folder for case files
    project: Path | None = None  # as --project named it: the commands that rerun a case name it too

    @property
    def takes_every_case(self) -> bool:
        """Nothing narrows the cases of a variant."""
        return not self.groups and self.expression is None and not self.last_failed and self.most is None


@dataclass(frozen=True, slots=True)
class SuitePlan:
    """The variants and cases to run, and where."""

    selections: tuple[Selection, ...]
    backend: Backend
    arch: Arch
    device: str  # "the emulator", or the GPU's name
    grid: Grid
    without_cases: tuple[str, ...]  # kernels that were selected and have none

    @property
    def num_cases(self) -> int:
        return sum(len(selection.cases) for selection in self.selections)


@dataclass(frozen=True, slots=True)
class SuiteReport:
    """What ran."""

    plan: SuitePlan
    options: SuiteOptions
    library: Path
    results: tuple[VariantResult, ...]
    not_run: tuple[str, ...]  # variants left after a device was lost
    stamp: Stamp = UNKNOWN_STAMP
    compiler: str = ""
    library_digest: str = ""

    @property
    def idle(self) -> tuple[VariantResult, ...]:
        """Variants of which every case was skipped."""
        return tuple(result for result in self.results if not result.cases_run)

    @property
    def missed(self) -> tuple[str, ...]:
        """Kernels and variants that were asked for by name and of which no case ran."""
        silent = {name for result in self.idle for name in (result.variant.name, result.variant.kernel.name)}
        return tuple(name for name in self.options.patterns if name in silent | set(self.plan.without_cases))

    @property
    def passed(self) -> bool:
        """Something ran, nothing failed, and nothing that was asked for by name was left out."""
        ran = sum(result.cases_run for result in self.results)
        return ran > 0 and not self.not_run and not self.missed and not any(r.failures for r in self.results)


class Watcher(Protocol):
    """Told how the run goes on."""

    def start(self, plan: SuitePlan) -> None: ...

    def case(self, selection: Selection, case: Case, outcome: Outcome) -> None: ...

    def stop(self) -> None: ...
