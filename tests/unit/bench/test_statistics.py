"""Median, noise, the interval of the median, and when to stop."""

import random

import pytest

from sparkctl.bench.statistics import (
    StopRule,
    median,
    median_interval,
    noise,
    quantile,
    relative_width,
    stop_reason,
)


def test_the_median_of_an_even_count_is_the_mean_of_the_middle_two() -> None:
    assert median([4.0, 1.0, 3.0, 2.0]) == 2.5
    assert median([5.0, 1.0, 3.0]) == 3.0


def test_no_samples_have_no_median() -> None:
    with pytest.raises(ValueError, match="no samples"):
        median([])
    with pytest.raises(ValueError, match="no samples"):
        median_interval([])


def test_noise_is_the_interquartile_range_over_the_median() -> None:
    samples = [float(x) for x in range(1, 102)]  # quartiles 26 and 76, median 51
    assert quantile(samples, 0.25) == 26.0
    assert noise(samples) == pytest.approx(50 / 51)


def test_one_interrupted_sample_hardly_moves_the_noise() -> None:
    calm = [10.0 + 0.01 * (i % 5) for i in range(40)]
    assert noise([*calm, 500.0]) == pytest.approx(noise(calm), rel=0.5)


def test_the_interval_takes_the_ranks_of_the_binomial_table() -> None:
    # Conover, Practical Nonparametric Statistics: n = 20 at 95 % is the 6th and the 15th order statistic.
    interval = median_interval([float(x) for x in range(1, 21)])
    assert (interval.low, interval.high) == (6.0, 15.0)


def test_few_samples_give_their_whole_range() -> None:
    interval = median_interval([3.0, 1.0, 2.0])
    assert (interval.low, interval.high) == (1.0, 3.0)


@pytest.mark.parametrize("count", [20, 50, 250])
def test_the_interval_covers_the_true_median_at_least_95_times_in_100(count: int) -> None:
    draw = random.Random(7)
    runs = 2000
    hits = 0
    for _ in range(runs):
        interval = median_interval([draw.lognormvariate(0.0, 0.5) for _ in range(count)])
        hits += interval.low <= 1.0 <= interval.high
    assert hits / runs >= 0.94


def test_the_exact_ranks_and_the_approximation_meet() -> None:
    exact, approximate = ([float(i) for i in range(n)] for n in (200, 201))
    assert abs(median_interval(exact).low - median_interval(approximate).low) <= 2.0
    assert relative_width(approximate) > 0


RULE = StopRule(min_samples=20, max_samples=100, relative_width=0.01)


def test_nothing_stops_before_the_least_number_of_samples() -> None:
    assert stop_reason([1.0] * 19, RULE, taken=19, out_of_budget=True) is None


def test_equal_samples_stop_as_precise() -> None:
    assert stop_reason([1.0] * 20, RULE, taken=20, out_of_budget=True) == "precise"


def test_spread_samples_go_on_until_the_budget_or_the_count_ends() -> None:
    spread = [1.0, 2.0] * 10
    assert stop_reason(spread, RULE, taken=20, out_of_budget=False) is None
    assert stop_reason(spread, RULE, taken=20, out_of_budget=True) == "budget"
    assert stop_reason(spread * 5, RULE, taken=100, out_of_budget=False) == "samples"


def test_throttled_samples_count_against_the_budget_but_not_for_precision() -> None:
    assert stop_reason([1.0] * 5, RULE, taken=25, out_of_budget=False) is None
    assert stop_reason([1.0] * 5, RULE, taken=25, out_of_budget=True) == "budget"
    assert stop_reason([], RULE, taken=100, out_of_budget=False) == "samples"
