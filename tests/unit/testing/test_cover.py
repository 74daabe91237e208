"""Pairwise covers: complete, small, and inside their bound."""

from itertools import combinations, product

import pytest

from sparkctl.testing.cover import cover_pairs

AXES = {"a": (1, 2, 3, 4, 5), "b": ("x", "y", "z"), "c": (True, False), "d": (10, 20, 30, 40)}


def pairs(rows):
    return {((a, row[a]), (b, row[b])) for row in rows for a, b in combinations(AXES, 2)}


def all_pairs():
    return {((a, x), (b, y)) for a, b in combinations(AXES, 2) for x, y in product(AXES[a], AXES[b])}


def test_every_pair_appears_in_few_rows():
    rows = cover_pairs(AXES, lambda row: True)
    assert pairs(rows) == all_pairs()
    assert 20 <= len(rows) <= 24  # 5 × 4 is the least that two axes alone need; all rows would be 120


def test_only_pairs_over_the_bound_are_left_out():
    def affordable(row):
        return row.get("a", 1) * row.get("d", 10) <= 100

    rows = cover_pairs(AXES, affordable)
    assert all(affordable(row) for row in rows)
    assert all_pairs() - pairs(rows) == {(("a", a), ("d", d)) for a in AXES["a"] for d in AXES["d"] if a * d > 100}


def test_the_same_axes_give_the_same_rows():
    assert cover_pairs(AXES, lambda row: True) == cover_pairs(dict(AXES), lambda row: True)


def test_a_bound_that_no_row_can_keep_is_an_error():
    with pytest.raises(ValueError, match="no value of d is affordable"):
        cover_pairs(AXES, lambda row: "d" not in row)
