"""What differs between two reports of a kernel, and that a trade is never called better."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkctl.resources.change import COSTS, Change, Numbers, compare

NUMBERS = Numbers(128, 0, 0, 0, 640, 65536, 1, 2, 8)


def verdict(**changes: int | None) -> str:
    return Change("k.d128", "sm_90", NUMBERS, replace(NUMBERS, **changes)).verdict


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "same"),
        ({"registers": 127}, "better"),
        ({"registers": 129}, "worse"),
        ({"spill_store_bytes": 4}, "worse"),
        ({"registers": 96, "spill_store_bytes": 60, "spill_load_bytes": 60}, "moved"),
        ({"registers": 96, "blocks_per_sm": 3, "warps_per_sm": 12}, "better"),
        ({"registers": 136, "blocks_per_sm": 1, "warps_per_sm": 4}, "worse"),
        ({"static_smem_bytes": 4736, "registers": 120}, "moved"),
        ({"blocks_per_sm": 1}, "moved"),  # as many warps in fewer blocks
        ({"barriers": None}, "moved"),
        ({"spill_store_bytes": None}, "moved"),
    ],
)
def test_only_what_is_nowhere_worse_is_better(changes: dict[str, int | None], expected: str) -> None:
    assert verdict(**changes) == expected


def test_blocks_are_told_with_the_warps_that_decide() -> None:
    change = Change("k", "sm_90", NUMBERS, replace(NUMBERS, blocks_per_sm=3, warps_per_sm=12))
    assert [(d.field, d.old, d.new) for d in change.differences] == [("warps_per_sm", 8, 12)]


def test_both_sides_are_there_in_order_what_is_gone_behind() -> None:
    old = {("a", "sm_90"): NUMBERS, ("b", "sm_90"): NUMBERS, ("gone", "sm_90"): NUMBERS}
    new = {("new", "sm_90"): NUMBERS, ("b", "sm_90"): NUMBERS, ("a", "sm_90"): replace(NUMBERS, registers=96)}
    assert [(c.name, c.verdict) for c in compare(old, new)] == [
        ("new", "new"), ("b", "same"), ("a", "better"), ("gone", "gone"),
    ]  # fmt: skip


sizes = st.integers(0, 4)
some = st.builds(Numbers, *([sizes] * 9))


@given(some, some)
def test_a_change_and_its_reverse_are_opposites(old: Numbers, new: Numbers) -> None:
    opposite = {"better": "worse", "worse": "better", "moved": "moved", "same": "same"}
    there, back = Change("k", "sm_90", old, new), Change("k", "sm_90", new, old)
    assert back.verdict == opposite[there.verdict]
    assert (there.verdict == "same") == (old == new)


@given(some, some)
def test_better_costs_nothing_anywhere(old: Numbers, new: Numbers) -> None:
    if Change("k", "sm_90", old, new).verdict == "better":
        assert all(getattr(new, cost) <= getattr(old, cost) for cost in COSTS)
        assert (new.warps_per_sm or 0) >= (old.warps_per_sm or 0)


def test_another_limiter_alone_is_no_change() -> None:
    limited = replace(NUMBERS, limiters=("registers",))
    assert Change("k", "sm_90", limited, replace(NUMBERS, limiters=("shared_memory",))).verdict == "same"
    assert limited == NUMBERS
