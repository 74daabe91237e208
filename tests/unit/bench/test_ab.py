"""Arms held against each other: rounds, ratios, verdicts and bits."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
import torch

from sparkctl.bench.ab import RATIO_CONFIDENCE, Ab, geometric_mean, judge, round_ratios
from sparkctl.bench.arms import count_differences
from sparkctl.bench.results import Sample, Series
from sparkctl.bench.sampling import sample_rounds
from sparkctl.bench.statistics import Interval, StopRule, median_interval

RULE = StopRule(min_samples=20, max_samples=400, relative_width=0.005)


class Drifting:
    """A device whose clock drifts: a sample takes `us`, times the drift so far, times noise of its own."""

    calls = 1

    def __init__(self, us: float, draw: random.Random, drift: list[float], noise: float) -> None:
        self.us, self.draw, self.drift, self.noise = us, draw, drift, noise

    def take_sample(self) -> Sample:
        self.drift[0] *= self.draw.gauss(1.0, 0.001)
        return Sample(self.us * self.drift[0] * math.exp(self.draw.gauss(0.0, self.noise)))


def verdict_of(seed: int, speedup: float, noise: float = 0.008) -> str:
    draw, drift = random.Random(seed), [1.0]
    timers = {name: Drifting(us, draw, drift, noise) for name, us in (("a", 20.0), ("b", 20.0 / speedup))}
    taken = sample_rounds(timers, rule=RULE, budget_s=60, now=count_from_zero(), pairs=[("a", "b")])
    return judge(median_interval(round_ratios(taken["a"], taken["b"]), RATIO_CONFIDENCE))


def count_from_zero() -> Callable[[], float]:
    ticks = iter(range(10**9))
    return lambda: float(next(ticks))


def test_equal_arms_are_called_the_same_at_least_99_times_in_100() -> None:
    verdicts = [verdict_of(seed, 1.0) for seed in range(500)]
    assert verdicts.count("same") >= 495


@pytest.mark.parametrize(("speedup", "verdict"), [(1.02, "faster"), (1 / 1.02, "slower")])
def test_a_planted_2_percent_is_found_at_least_95_times_in_100(speedup: float, verdict: str) -> None:
    verdicts = [verdict_of(seed, speedup) for seed in range(300)]
    assert verdicts.count(verdict) >= 285


def test_a_difference_inside_a_wide_noise_is_unsure_and_never_a_gain() -> None:
    verdicts = [verdict_of(seed, 1.01, noise=0.15) for seed in range(100)]
    assert verdicts.count("faster") <= 1
    assert verdicts.count("unsure") >= 90


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.006, 1.3, "faster"),
        (1.004, 1.3, "unsure"),
        (1.001, 1.004, "same"),
        (0.99, 1.01, "same"),
        (0.97, 1.01, "unsure"),
        (0.8, 0.994, "slower"),
        (0.985, 0.999, "same"),
    ],
)
def test_a_verdict_needs_the_whole_interval(low: float, high: float, verdict: str) -> None:
    assert judge(Interval(low, high)) == verdict


class Logged:
    calls = 1

    def __init__(self, name: str, log: list[str], time_of: Callable[[int], Sample]) -> None:
        self.name, self.log, self.time_of, self.taken = name, log, time_of, 0

    def take_sample(self) -> Sample:
        self.log.append(self.name)
        self.taken += 1
        return self.time_of(self.taken)


def rounds(budget_s: float, **times: Callable[[int], Sample]) -> tuple[dict[str, Series], str]:
    log: list[str] = []
    timers = {name: Logged(name, log, time_of) for name, time_of in times.items()}
    rule = StopRule(min_samples=4, max_samples=10, relative_width=0.005)
    taken = sample_rounds(timers, rule=rule, budget_s=budget_s, now=lambda: float(len(log)), pairs=[("a", "b")])
    return taken, "".join(log)


def test_every_round_has_every_arm_and_turns_the_order_round() -> None:
    taken, log = rounds(100.0, a=lambda _: Sample(10.0), b=lambda _: Sample(8.0), c=lambda n: Sample(float(n)))
    assert log == "abccba" * 2
    assert {series.stop for series in taken.values()} == {"precise"}


def test_one_arm_that_is_not_precise_keeps_all_in_the_rounds() -> None:
    taken, log = rounds(1000.0, a=lambda _: Sample(10.0), b=lambda n: Sample(8.0 + n % 2))
    assert (log.count("a"), log.count("b")) == (10, 10)
    assert {series.stop for series in taken.values()} == {"samples"}


def test_out_of_budget_the_least_rounds_are_taken() -> None:
    taken, log = rounds(1.0, a=lambda n: Sample(10.0 + n % 2), b=lambda _: Sample(8.0))
    assert (log.count("a"), log.count("b")) == (4, 4)
    assert {series.stop for series in taken.values()} == {"budget"}


def series(*samples: Sample) -> Series:
    return Series(samples, 1, "precise")


def test_a_round_with_a_throttled_sample_has_no_ratio() -> None:
    slow = Sample(40.0, 900, ("power cap",))
    base, other = series(Sample(10.0), slow, Sample(12.0)), series(Sample(5.0), Sample(5.0), Sample(4.0))
    assert round_ratios(base, other) == (2.0, 3.0)
    assert round_ratios(series(slow), series(Sample(20.0))) == (2.0,)  # there are no others


def test_a_ratio_ignores_a_drift_that_meets_both_arms() -> None:
    base, other = (series(*(Sample(us * 1.1**n) for n in range(8))) for us in (20.0, 10.0))
    assert set(round_ratios(base, other)) == {2.0}


def test_the_geometric_mean_of_a_gain_and_its_inverse_is_one() -> None:
    assert geometric_mean([2.0, 0.5]) == pytest.approx(1.0)
    assert geometric_mean([1.2, 1.2, 1.5]) == pytest.approx((1.2 * 1.2 * 1.5) ** (1 / 3))
    with pytest.raises(ValueError, match="no ratios"):
        geometric_mean([])


def test_equal_bits_are_told_from_equal_numbers_and_from_small_differences() -> None:
    one = torch.tensor([[0.0, 1.0, -2.0]], dtype=torch.bfloat16)
    other = torch.tensor([[-0.0, 1.0, -2.015625]], dtype=torch.bfloat16)
    assert str(count_differences([one, one], [one.clone(), one])) == "bits equal"
    found = count_differences([one, one], [one, other])
    assert (found.differing, found.total, found.largest, found.equal) == (2, 6, 0.015625, False)
    assert str(found) == "2 of 6 differ, by up to 0.016"


def test_labels_name_what_is_varied() -> None:
    assert Ab("stages", ("1", "2")).labels == ("stages=1", "stages=2")
