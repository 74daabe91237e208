"""Lengths of the sequences of one batch, as they are written and as they are drawn. Pure."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from sparkctl.bench.sizes import format_size, parse_size
from sparkctl.errors import UsageError

MAX_BATCH = 65_535  # CUDA C++ Programming Guide, compute capabilities: a grid's z
STEPS = (16, 8, 4, 2, 1)  # keys: the mean of drawn lengths is a multiple of the largest that it can be
LENGTHS_FORM = "keys of each sequence, as in 128,1k,16k, or 63*128,16k for 63 of one length"
SPREAD_FORM = "the shortest and the longest, as in 128-16k"


@dataclass(frozen=True, slots=True, order=True)
class Spread:
    """Lengths are drawn from `low` to `high`, log-uniformly; prints as `128-16k`."""

    low: int
    high: int
    seed: int = 0

    def __str__(self) -> str:
        return f"{format_size(self.low)}-{format_size(self.high)}"


def draw_lengths(spread: Spread, batch: int) -> tuple[int, ...]:
    """As many lengths as `batch`, the same for the same seed.

    So that a batch of one length can have as many keys, the longest give up what keeps the mean from being a multiple
    of one of STEPS.
    """
    source = random.Random(spread.seed)
    low, high = math.log(spread.low), math.log(spread.high)
    drawn = [round(math.exp(low + (high - low) * source.random())) for _ in range(batch)]
    lengths = [min(max(length, spread.low), spread.high) for length in drawn]
    mean = sum(lengths) // batch
    step = next(step for step in STEPS if mean // step * step >= spread.low)
    excess = sum(lengths) - mean // step * step * batch
    for index in sorted(range(batch), key=lambda index: -lengths[index]):
        given = min(excess, lengths[index] - spread.low)
        lengths[index] -= given
        excess -= given
    return tuple(lengths)


def parse_lengths(text: str, separator: str = ",") -> tuple[int, ...]:
    """`128,1k,16k`, or `63*128,16k`; UsageError for anything else, for a length below 1 and for too many."""
    lengths: list[int] = []
    for part in (part.strip() for part in text.split(separator)):
        times, star, length = part.rpartition("*")
        count, keys = (_positive(times) if star else 1), _positive(length)
        if len(lengths) + count > MAX_BATCH:
            raise UsageError(f"'{text[:40]}' has more than {MAX_BATCH} lengths", hint="a sequence is a row of the grid")
        lengths += [keys] * count
    return tuple(lengths)


def format_lengths(lengths: Sequence[int], separator: str = "+") -> str:
    """`3*128+16k`: neighbours of one length are counted."""
    runs = ((format_size(length), len(list(run))) for length, run in groupby(lengths))
    return separator.join(length if count == 1 else f"{count}*{length}" for length, count in runs)


def parse_spread(text: str, seed: int = 0) -> Spread:
    """`128-16k`; UsageError for anything else, and where the longest is below the shortest."""
    low, dash, high = text.partition("-")
    if not dash or not low.strip() or not high.strip():
        raise UsageError(f"'{text}' is no range of lengths", hint=SPREAD_FORM)
    try:
        spread = Spread(_positive(low), _positive(high), seed)
    except UsageError as error:
        raise UsageError(error.message, hint=SPREAD_FORM) from error
    if spread.high < spread.low:
        raise UsageError(f"'{text}': {high.strip()} is less than {low.strip()}", hint=SPREAD_FORM)
    return spread


def _positive(text: str) -> int:
    try:
        number = parse_size(text)
    except UsageError as error:
        raise UsageError(error.message, hint=LENGTHS_FORM) from error
    if number < 1:
        raise UsageError(f"'{text.strip()}' is less than 1", hint=LENGTHS_FORM)
    return number
