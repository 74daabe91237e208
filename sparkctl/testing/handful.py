"""A few cases that stand for many, where an answer has to come within seconds."""

from __future__ import annotations

from collections.abc import Sequence

from sparkctl.testing.model import Case, DecodeCase, PrefillCase


def choose_handful(cases: Sequence[Case], most: int) -> tuple[Case, ...]:
    """At most `most` cases, evenly spread over the order of the cheaper half: neighbours ask for much the same."""
    if len(cases) <= most:
        return tuple(cases)
    costs = [case.work if isinstance(case, DecodeCase | PrefillCase) else 0 for case in cases]
    bar = sorted(costs)[max(most, len(costs) // 2) - 1]
    cheap = [case for case, cost in zip(cases, costs, strict=True) if cost <= bar]
    return tuple(cheap[number * len(cheap) // most] for number in range(most))
