"""Two arms on one case: the ratio of their times round by round, its interval, the verdict, their outputs. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sparkctl.bench.results import Row, Series
from sparkctl.bench.statistics import Interval, median, median_interval

RATIO_CONFIDENCE = 0.995  # of a ratio's interval: equal arms are to be called the same 99 times in 100
INDIFFERENT = 0.005  # a difference up to here is none: where an arm's buffers lie can make as much
SAME_WITHIN = 0.02  # a larger one would have been found: with a wider interval the verdict is unsure

OPTIONS = "options"  # arms that are asked for more than plain attention

Judgement = Literal["faster", "slower", "same", "unsure"]


@dataclass(frozen=True, slots=True)
class Ab:
    """What is varied, and its values as they were written: the first is what the others are held against."""

    name: str
    values: tuple[str, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """`stages=1`, `stages=2`; of call options the value alone: `plain`, `window=4k`."""
        if self.name == OPTIONS:
            return self.values
        return tuple(f"{self.name}={value}" for value in self.values)


@dataclass(frozen=True, slots=True)
class Bits:
    """How far the outputs of two arms agree."""

    differing: int  # elements
    total: int
    largest: float  # difference, 0 where all bits are equal

    @property
    def equal(self) -> bool:
        return self.differing == 0

    def __str__(self) -> str:
        return "bits equal" if self.equal else f"{self.differing} of {self.total} differ, by up to {self.largest:.2g}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One case: `other` held against `base`, sampled in the same rounds."""

    base: Row
    other: Row
    bits: Bits

    @property
    def ratios(self) -> tuple[float, ...]:
        """base's time over other's, one for each round."""
        return round_ratios(self.base.series, self.other.series)

    @property
    def ratio(self) -> float:
        """Above 1 `other` is faster."""
        return median(self.ratios)

    @property
    def interval(self) -> Interval:
        return median_interval(self.ratios, RATIO_CONFIDENCE)

    @property
    def verdict(self) -> Judgement:
        """Of `other`."""
        return judge(self.interval)


def round_ratios(base: Series, other: Series) -> tuple[float, ...]:
    """Time of base over time of other in each round; rounds with a throttled sample only where there are no others."""
    pairs = list(zip(base.samples, other.samples, strict=False))
    calm = [pair for pair in pairs if not any(sample.throttle for sample in pair)]
    return tuple(a.time_us / b.time_us for a, b in calm or pairs)


def judge(interval: Interval) -> Judgement:
    """What an interval of the ratio says of the second arm."""
    if interval.low > 1 + INDIFFERENT:
        return "faster"
    if interval.high < 1 / (1 + INDIFFERENT):
        return "slower"
    within = interval.low >= 1 / (1 + SAME_WITHIN) and interval.high <= 1 + SAME_WITHIN
    return "same" if within else "unsure"


def group_comparisons(comparisons: Sequence[Comparison]) -> list[list[Comparison]]:
    """Those of one kernel and one later arm together, in order of appearance."""
    groups: dict[tuple[str, str], list[Comparison]] = {}
    for one in comparisons:
        groups.setdefault((one.other.kernel, one.other.arm), []).append(one)
    return list(groups.values())


def geometric_mean(ratios: Sequence[float]) -> float:
    """ValueError when empty."""
    if not ratios:
        raise ValueError("no ratios")
    return math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))
