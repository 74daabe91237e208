"""A run held against a saved one: ratio, interval and verdict of each row. The two were not interleaved. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparkctl.bench.ab import RATIO_CONFIDENCE, SAME_WITHIN, Judgement
from sparkctl.bench.results import Row, Run
from sparkctl.bench.statistics import Interval, median_interval

# Runs of equal code in two processes came out as much as 0.5 % apart on an H200; a difference up to here is none.
INDIFFERENT_APART = 0.01
ALWAYS_SAID = (("gpu", "GPU"), ("driver", "driver"), ("cuda", "CUDA"), ("compiler", "compiler"), ("profile", "profile"))


@dataclass(frozen=True, slots=True)
class Against:
    """A row and its counterpart in the baseline; None where it has none."""

    row: Row
    base: Row | None
    comparable: bool

    @property
    def ratio(self) -> float | None:
        """The baseline's time over ours: above 1 ours is faster."""
        return None if self.base is None else self.base.series.median_us / self.row.series.median_us

    @property
    def interval(self) -> Interval | None:
        """Of the ratio: from the medians' two intervals, each at RATIO_CONFIDENCE, at their far ends."""
        if self.base is None:
            return None
        base = median_interval(self.base.series.times_us, RATIO_CONFIDENCE)
        ours = median_interval(self.row.series.times_us, RATIO_CONFIDENCE)
        return Interval(base.low / ours.high, base.high / ours.low)

    @property
    def verdict(self) -> Judgement | None:
        """Of our row; None without a counterpart, and between two GPUs."""
        return None if self.interval is None or not self.comparable else judge_apart(self.interval)


@dataclass(frozen=True, slots=True)
class Baseline:
    """A saved run beside this one."""

    source: str  # where it was read
    run: Run
    rows: tuple[Against, ...]
    differences: tuple[str, ...]  # of the environments: `driver 580.95 here, 570.10 there`
    comparable: bool  # the same GPU

    @property
    def left_out(self) -> int:
        """Rows of the baseline that this run does not have."""
        used = {id(one.base) for one in self.rows}
        return sum(id(row) not in used for row in self.run.rows)


def hold_against(run: Run, base: Run, source: str) -> Baseline:
    """Every row beside the baseline's of the same case and variant, or of the same case where each has just one."""
    comparable = run.environment.gpu == base.environment.gpu
    rows = tuple(Against(row, _counterpart(row, run.rows, base.rows), comparable) for row in run.rows)
    return Baseline(source, base, rows, tuple(_differences(run, base)), comparable)


def judge_apart(interval: Interval) -> Judgement:
    """As ab.judge does, with more room for what differs between two runs."""
    if interval.low > 1 + INDIFFERENT_APART:
        return "faster"
    if interval.high < 1 / (1 + INDIFFERENT_APART):
        return "slower"
    within = interval.low >= 1 / (1 + SAME_WITHIN) and interval.high <= 1 + SAME_WITHIN
    return "same" if within else "unsure"


def _counterpart(row: Row, rows: Sequence[Row], base_rows: Sequence[Row]) -> Row | None:
    there = [one for one in base_rows if one.case == row.case and one.arm == row.arm]
    same = [one for one in there if one.variant == row.variant]
    if same:
        return same[0]
    here = [one for one in rows if one.case == row.case and one.arm == row.arm]
    return there[0] if len(there) == len(here) == 1 else None


def _differences(run: Run, base: Run) -> list[str]:
    ours, theirs = run.environment, base.environment
    found = [
        f"{label} {getattr(ours, name) or 'unknown'} here, {getattr(theirs, name) or 'unknown'} there"
        for name, label in ALWAYS_SAID
        if getattr(ours, name) != getattr(theirs, name)
    ]
    flags = [" ".join(f"{name}={value}" for name, value in env.flags) or "none" for env in (ours, theirs)]
    return found if flags[0] == flags[1] else [*found, f"flags {flags[0]} here, {flags[1]} there"]
