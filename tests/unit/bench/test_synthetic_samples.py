"""What sampling and statistics make of samples that drift, jump, are throttled or come from two places."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from sparkctl.bench.ab import judge, round_ratios
from sparkctl.bench.results import Sample, Series
from sparkctl.bench.sampling import sample_in_turn, sample_rounds
from sparkctl.bench.statistics import StopRule, median, median_interval, noise

RULE = StopRule()
SampleOf = Callable[[int], Sample]


class Timer:
    """The n-th sample is `sample_of(n)`, n shared by all timers of a clock."""

    calls = 10

    def __init__(self, sample_of: SampleOf, clock: list[int]) -> None:
        self.sample_of, self.clock = sample_of, clock

    def take_sample(self) -> Sample:
        self.clock[0] += 1
        return self.sample_of(self.clock[0])


def sample(times: dict[str, SampleOf], budget_s: float = 1e9, *, rounds: bool = False) -> dict[str, Series]:
    clock = [0]
    timers = {name: Timer(one, clock) for name, one in times.items()}
    if rounds:
        first, *later = times
        pairs = [(first, name) for name in later]
        return sample_rounds(timers, rule=RULE, budget_s=budget_s, now=lambda: clock[0] * 0.002, pairs=pairs)
    return sample_in_turn(timers, rule=RULE, budget_s=budget_s, now=lambda: clock[0] * 0.002)


def noisy(share: float, seed: int) -> Callable[[float], float]:
    draw = random.Random(seed)
    return lambda time_us: time_us * (1 + draw.gauss(0, share))


def test_a_drift_moves_both_arms_and_not_their_ratio() -> None:
    """The clock falls by a fifth over the run."""
    a, b = noisy(0.004, 1), noisy(0.004, 2)
    found = sample(
        {
            "a": lambda n: Sample(a(10.0 * (1 + n / 1000))),
            "b": lambda n: Sample(b(10.2 * (1 + n / 1000))),
        },
        budget_s=0.4,
        rounds=True,
    )
    times = found["a"].times_us
    assert max(times) / min(times) > 1.15
    ratios = round_ratios(found["a"], found["b"])
    assert median(ratios) == pytest.approx(1 / 1.02, rel=0.004)
    assert judge(median_interval(ratios, 0.995)) == "slower"
    assert found["a"].stop == "budget"  # a median that moves is not precise


def test_arms_in_turn_meet_a_drift_alike() -> None:
    found = sample({name: lambda n: Sample(10.0 + n / 100) for name in "abc"}, budget_s=0.2)
    medians = [series.median_us for series in found.values()]
    assert max(medians) / min(medians) < 1.003


@pytest.mark.parametrize("every", [10, 4])
def test_spikes_decide_neither_median_nor_interval(every: int) -> None:
    calm = noisy(0.002, 3)
    found = sample({"a": lambda n: Sample(calm(10.0) * (5 if n % every == 0 else 1))})["a"]
    assert found.stop == "precise"
    assert found.median_us == pytest.approx(10.0, rel=0.003)
    assert found.interval_us.high < 10.1
    assert max(found.times_us) > 45


def test_throttled_stretches_are_counted_and_left_out() -> None:
    def sample_of(n: int) -> Sample:
        return Sample(13.0, 1200, ("power cap",)) if (n // 10) % 2 else Sample(10.0 + 0.01 * (n % 3), 1980)

    found = sample({"a": sample_of})["a"]
    assert found.stop == "precise"
    assert len(found.times_us) == 20
    assert (found.throttled, found.median_us) == (20, 10.01)


def test_where_every_sample_is_throttled_there_is_a_number_and_no_nan() -> None:
    found = sample({"a": lambda n: Sample(13.0 + 0.01 * (n % 2), 1200, ("software thermal",))}, budget_s=0.1)["a"]
    assert found.all_throttled
    assert 13.0 <= found.interval_us.low <= found.median_us <= found.interval_us.high <= 13.01
    assert found.noise == found.noise < 0.01
    assert found.stop == "budget"


def test_a_ratio_where_one_arm_is_throttled_throughout_is_still_a_number() -> None:
    calm = Series(tuple(Sample(10.0) for _ in range(20)), 1, "budget")
    slow = Series(tuple(Sample(13.0, 1200, ("power cap",)) for _ in range(20)), 1, "budget")
    assert set(round_ratios(calm, slow)) == {10.0 / 13.0}


def test_two_modes_show_as_noise() -> None:
    """Half the samples are 10 % slower, as when memory lies unluckily."""
    shown = 0
    for seed in range(50):
        draw = random.Random(seed)
        found = sample({"a": lambda n, draw=draw: Sample(draw.choice((10.0, 11.0)))}, budget_s=0.5)["a"]  # type: ignore[misc]
        shown += found.noise > 0.05
        assert 10.0 <= found.median_us <= 11.0
    assert shown >= 45


def test_two_modes_in_both_arms_are_no_verdict() -> None:
    draw = random.Random(6)
    found = sample(
        {name: lambda n: Sample(draw.choice((10.0, 11.0))) for name in "ab"},
        budget_s=0.2,
        rounds=True,
    )
    interval = median_interval(round_ratios(found["a"], found["b"]), 0.995)
    assert judge(interval) in ("unsure", "same")
    assert noise(found["a"].times_us) > 0.05
