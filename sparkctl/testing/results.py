"""What a test run gives: per variant how many cases ran, what failed and how close the worst came."""

from __future__ import annotations

from dataclasses import dataclass

from sparkctl.registry.model import Variant
from sparkctl.testing.model import Case


@dataclass(frozen=True, slots=True)
class Selection:
    """A variant and the cases it is to be tested with."""

    variant: Variant
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class CaseFailure:
    """A case that failed and what was wrong."""

    case_id: str
    message: str


@dataclass(frozen=True, slots=True)
class CaseSkip:
    """A case that did not run and what is missing for it."""

    case_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class VariantResult:
    """One variant's cases. `worst` is the largest error relative to what is allowed, over the cases that compared."""

    variant: Variant
    case_ids: tuple[str, ...]  # of the cases that ran, each once however often it was repeated
    launches: int  # kernel launches seen; 0 where the backend does not count them
    failures: tuple[CaseFailure, ...]
    skips: tuple[CaseSkip, ...]
    worst: float
    worst_case: str | None
    seconds: float
    device_lost: bool = False  # the device stopped answering: the cases after it did not run

    @property
    def cases_run(self) -> int:
        """Counted as they ran."""
        return len(self.case_ids)
