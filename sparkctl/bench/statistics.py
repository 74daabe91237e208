"""What a list of samples says: median, noise, the interval of the median, and when to stop. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

CONFIDENCE = 0.95
_EXACT_UP_TO = 200  # samples; beyond, the normal approximation of the ranks is off by less than one rank

StopReason = Literal["precise", "budget", "samples"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A closed interval, in the unit of the samples."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class StopRule:
    """When enough has been measured."""

    min_samples: int = 20
    max_samples: int = 2000
    relative_width: float = 0.005  # of the median's interval, as a share of the median


def median(samples: Sequence[float]) -> float:
    """The middle value; the mean of the two middle ones for an even count. ValueError when empty."""
    return quantile(samples, 0.5)


def quantile(samples: Sequence[float], share: float) -> float:
    """Linear interpolation between the order statistics (Hyndman and Fan's type 7). ValueError when empty."""
    if not samples:
        raise ValueError("no samples")
    ordered = sorted(samples)
    position = (len(ordered) - 1) * share
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def noise(samples: Sequence[float]) -> float:
    """The relative spread: the interquartile range over the median, as a share (0.01 is 1 %).

    Quartiles, since a single interrupted sample must not decide it.
    """
    middle = median(samples)
    return (quantile(samples, 0.75) - quantile(samples, 0.25)) / middle if middle else 0.0


def median_interval(samples: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """At least this confidence that the true median lies inside, whatever the distribution.

    The number of samples below the true median is Binomial(n, 1/2), so the interval runs from the (r+1)-th smallest to
    the (r+1)-th largest sample, r the largest with P(X ≤ r) ≤ (1 - confidence) / 2. Few samples (below six for 95 %)
    have no such r: then it is the whole range, at less confidence.
    """
    ordered = sorted(samples)
    if not ordered:
        raise ValueError("no samples")
    rank = _tail_rank(len(ordered), confidence)
    return Interval(ordered[rank], ordered[-1 - rank])


def _tail_rank(count: int, confidence: float) -> int:
    """Samples to drop at each end; 0 keeps the range."""
    if count > _EXACT_UP_TO:
        deviations = NormalDist().inv_cdf((1 + confidence) / 2)
        return math.floor((count - deviations * math.sqrt(count)) / 2) - 1
    tail, rank = 0.0, 0
    for below in range(count):
        tail += math.comb(count, below) / 2.0**count
        if tail > (1 - confidence) / 2:
            break
        rank = below
    return rank


def relative_width(samples: Sequence[float]) -> float:
    """Width of the median's interval as a share of the median."""
    interval, middle = median_interval(samples), median(samples)
    return (interval.high - interval.low) / middle if middle else 0.0


def stop_reason(samples: Sequence[float], rule: StopRule, *, taken: int, out_of_budget: bool) -> StopReason | None:
    """Why to stop now, or None to go on.

    `samples` are those that count, `taken` includes the throttled ones. Never before `min_samples` were taken, even out
    of budget; precise only with `min_samples` that count.
    """
    if len(samples) >= rule.min_samples and relative_width(samples) <= rule.relative_width:
        return "precise"
    if taken >= rule.min_samples and out_of_budget:
        return "budget"
    return "samples" if taken >= rule.max_samples else None
