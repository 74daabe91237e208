"""Taking samples of several arms in turn until each is precise or the budget ends; knows no device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


# Arms whose failure must not end the others', with what is told their error.
Optional = Mapping[str, Callable[[Exception], None]]


def sample_in_turn(
    timers: Mapping[str, Timer],
    *,
    rule: StopRule,
    budget_s: float,
    now: Callable[[], float],
    exceptions: Mapping[str, StopRule] | None = None,
    before_round: Callable[[], None] | None = None,
    optional: Optional | None = None,
) -> dict[str, Series]:
    """Rounds of one sample per arm (A B C A B C …), so that a drift of the clocks meets all of them alike.

    An arm leaves when its rule is met: `rule`, or its own among `exceptions`. `budget_s` is shared by all, and the
    least number of samples is taken even when it has run out. An arm that is `optional` leaves when it fails, without
    a series.
    """
    rules = {name: (exceptions or {}).get(name, rule) for name in timers}
    taken: dict[str, list[Sample]] = {name: [] for name in timers}
    stopped: dict[str, StopReason] = {}
    start = now()
    while len(stopped) < len(taken):
        if before_round is not None:
            before_round()
        for name in [name for name in taken if name not in stopped]:
            sample = _take(name, timers[name], optional)
            if sample is None:
                del taken[name]
                continue
            taken[name].append(sample)
            out_of_budget = now() - start >= budget_s
            reason = stop_reason(
                _counted(taken[name]), rules[name], taken=len(taken[name]), out_of_budget=out_of_budget
            )
            if reason is not None:
                stopped[name] = reason
    return {name: Series(tuple(samples), timers[name].calls, stopped[name]) for name, samples in taken.items()}


def sample_rounds(
    timers: Mapping[str, Timer],
    *,
    rule: StopRule,
    budget_s: float,
    now: Callable[[], float],
    pairs: Sequence[tuple[str, str]],
    before_round: Callable[[], None] | None = None,
    optional: Optional | None = None,
) -> dict[str, Series]:
    """Rounds of one sample of every arm, the order turned round each time (A B C, C B A, …), all arms to the end.

    So the n-th samples of two arms belong together, and no arm always follows the same other. Precise is when the
    medians of all arms in `pairs` are, and the ratios of every pair. `optional` as above.
    """
    taken: dict[str, list[Sample]] = {name: [] for name in timers}
    order = list(timers)
    start, rounds = now(), 0
    stopped: StopReason | None = None
    while stopped is None:
        if before_round is not None:
            before_round()
        for name in list(order):
            sample = _take(name, timers[name], optional)
            if sample is None:
                order.remove(name)
                del taken[name]
                continue
            taken[name].append(sample)
        order.reverse()
        rounds += 1
        stopped = _round_reason(taken, pairs, rule, rounds, out_of_budget=now() - start >= budget_s)
    return {name: Series(tuple(samples), timers[name].calls, stopped) for name, samples in taken.items()}


def _take(name: str, timer: Timer, optional: Optional | None) -> Sample | None:
    """None where an optional arm failed."""
    if not optional or name not in optional:
        return timer.take_sample()
    try:
        return timer.take_sample()
    except Exception as error:
        optional[name](error)
        return None


def _round_reason(
    taken: Mapping[str, list[Sample]],
    pairs: Sequence[tuple[str, str]],
    rule: StopRule,
    rounds: int,
    *,
    out_of_budget: bool,
) -> StopReason | None:
    """The weakest reason of all arms and ratios: None until each has one."""
    arms = dict.fromkeys(name for pair in pairs for name in pair)
    wanted = [_counted(taken[name]) for name in arms]
    wanted += [
        [
            a.time_us / b.time_us
            for a, b in zip(taken[base], taken[other], strict=True)
            if not (a.throttle or b.throttle)
        ]
        for base, other in pairs
    ]
    reasons = [stop_reason(one, rule, taken=rounds, out_of_budget=out_of_budget) for one in wanted]
    if None in reasons:
        return None
    return next((reason for reason in reasons if reason != "precise"), "precise")


def _counted(samples: list[Sample]) -> list[float]:
    return [sample.time_us for sample in samples if not sample.throttle]
