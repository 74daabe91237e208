"""A few variants that stand for many: every pair of axis values that occurs, occurs among them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from sparkctl.registry.model import AxisValue, Variant

Pair = tuple[tuple[str, AxisValue], tuple[str, AxisValue]]


def spread_variants(variants: Sequence[Variant]) -> tuple[Variant, ...]:
    """The variants of one kernel, thinned by taking whichever adds most pairs; the order stays the registry's."""
    missing = {pair for variant in variants for pair in pairs_of(variant)}
    chosen: set[str] = set()
    while missing:
        best = max(variants, key=lambda variant: len(missing & pairs_of(variant)))
        chosen.add(best.name)
        missing -= pairs_of(best)
    return tuple(variant for variant in variants if variant.name in chosen)


def pairs_of(variant: Variant) -> set[Pair]:
    """Pairs of axis values; of a kernel with one axis each value beside itself."""
    if len(variant.values) == 1:
        return {(variant.values[0], variant.values[0])}
    return set(combinations(variant.values, 2))
