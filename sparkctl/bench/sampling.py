"""Taking samples of several arms in turn until each is precise or the budget ends; knows no device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from sparkctl.bench.results import Sample, Series
from sparkctl.bench.statistics import StopReason, StopRule, stop_reason


class Timer(Protocol):
    """Something that can be timed once more."""

    @property
    def calls(self) -> int:
        """Calls that one sample averages over."""

    def take_sample(self) -> Sample:
        """Run once and say how long one call took."""


def sample_in_turn(
    timers: Mapping[str, Timer],
    *,
    rule: StopRule,
    budget_s: float,
    now: Callable[[], float],
    exceptions: Mapping[str, StopRule] | None = None,
) -> dict[str, Series]:
    """Rounds of one sample per arm (A B C A B C …), so that a drift of the clocks meets all of them alike.

    An arm leaves when its rule is met: `rule`, or its own among `exceptions`. `budget_s` is shared by all, and the
    least number of samples is taken even when it has run out.
    """
    rules = {name: (exceptions or {}).get(name, rule) for name in timers}
    taken: dict[str, list[Sample]] = {name: [] for name in timers}
    stopped: dict[str, StopReason] = {}
    start = now()
    while len(stopped) < len(timers):
        for name, timer in timers.items():
            if name in stopped:
                continue
            taken[name].append(timer.take_sample())
            out_of_budget = now() - start >= budget_s
            reason = stop_reason(
                _counted(taken[name]), rules[name], taken=len(taken[name]), out_of_budget=out_of_budget
            )
            if reason is not None:
                stopped[name] = reason
    return {name: Series(tuple(taken[name]), timers[name].calls, stopped[name]) for name in timers}


def _counted(samples: list[Sample]) -> list[float]:
    return [sample.time_us for sample in samples if not sample.throttle]
