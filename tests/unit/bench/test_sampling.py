"""Sampling in turn, with a clock and timers that are made up."""

from collections.abc import Callable

from sparkctl.bench.results import Sample
from sparkctl.bench.sampling import sample_in_turn
from sparkctl.bench.statistics import StopRule

RULE = StopRule(min_samples=20, max_samples=60, relative_width=0.005)


class FakeTimer:
    """Takes the next time from `times` and lets the clock run by one second."""

    calls = 10

    def __init__(self, name: str, log: list[str], time_of: Callable[[int], Sample]) -> None:
        self.name, self.log, self.time_of, self.taken = name, log, time_of, 0

    def take_sample(self) -> Sample:
        self.log.append(self.name)
        self.taken += 1
        return self.time_of(self.taken)


def steady(_: int) -> Sample:
    return Sample(10.0)


def jumpy(index: int) -> Sample:
    return Sample(10.0 + index % 2)


def run(budget_s: float, **times: Callable[[int], Sample]) -> tuple[dict[str, str], list[str]]:
    log: list[str] = []
    timers = {name: FakeTimer(name, log, time_of) for name, time_of in times.items()}
    series = sample_in_turn(timers, rule=RULE, budget_s=budget_s, now=lambda: float(len(log)))
    return {name: one.stop for name, one in series.items()}, log


def test_arms_are_sampled_in_turn() -> None:
    _, log = run(1000.0, a=steady, b=steady)
    assert log == ["a", "b"] * 20


def test_a_precise_arm_leaves_and_the_others_go_on_to_the_most_samples() -> None:
    stops, log = run(1000.0, a=steady, b=jumpy)
    assert stops == {"a": "precise", "b": "samples"}
    assert (log.count("a"), log.count("b")) == (20, 60)


def test_out_of_budget_each_arm_still_takes_its_least_samples() -> None:
    stops, log = run(5.0, a=jumpy, b=jumpy)
    assert stops == {"a": "budget", "b": "budget"}
    assert (log.count("a"), log.count("b")) == (20, 20)


def test_an_arm_with_a_rule_of_its_own_leaves_by_it() -> None:
    log: list[str] = []
    timers = {name: FakeTimer(name, log, jumpy) for name in "ab"}
    brief = StopRule(min_samples=3, max_samples=3)
    series = sample_in_turn(timers, rule=RULE, budget_s=1e9, now=lambda: 0.0, exceptions={"b": brief})
    assert (log.count("a"), log.count("b")) == (60, 3)
    assert series["b"].stop == "samples"


def test_a_throttled_sample_is_kept_and_counted_but_does_not_move_the_median() -> None:
    def throttled_start(index: int) -> Sample:
        return Sample(99.0, 900, ("power cap",)) if index <= 30 else Sample(10.0, 1980)

    log: list[str] = []
    timer = FakeTimer("a", log, throttled_start)
    series = sample_in_turn({"a": timer}, rule=RULE, budget_s=1000.0, now=lambda: 0.0)["a"]
    assert (len(series.samples), series.throttled, series.median_us) == (50, 30, 10.0)
    assert not series.all_throttled


def test_a_row_with_nothing_but_throttled_samples_says_so_and_has_a_number() -> None:
    timer = FakeTimer("a", [], lambda _: Sample(12.0, 900, ("power cap",)))
    series = sample_in_turn({"a": timer}, rule=RULE, budget_s=0.0, now=lambda: 1.0)["a"]
    assert series.all_throttled
    assert series.median_us == 12.0
    assert series.stop == "budget"
