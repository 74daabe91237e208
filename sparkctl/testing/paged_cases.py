"""The cases of the paged decode kernels: lengths around page boundaries, every page size, shuffled and shared pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from sparkctl.testing.cover import cover_pairs
from sparkctl.testing.decode_cases import (
    AXES,
    DEVICE_WORK,
    EMULATOR_WORK,
    FULL_EMULATOR_WORK,
    GROUPS,
    NAMED_GROUPS,
    case_of,
    scores,
)
from sparkctl.testing.model import DecodeCase, Grid
from sparkctl.testing.option_cases import OPTION_AXES, named_paged_option_cases

PAGE_SIZES = (1, 8, 16, 24, 32, 48, 64, 128, 256)
NAMED_PAGE_SIZES = (1, 8, 16, 24, 48, 256)
# A length is a number of keys, or (pages, keys more): around a whole number of pages, whatever the page size.
LENGTHS = (0, 1, 17, 100, 513, (1, -1), (1, 0), (1, 1), (3, -1), (3, 0), (3, 1))
FULL_LENGTHS = (33, 255, 1023, 2048, (2, 0), (5, -1), (7, 1))
DEVICE_LENGTHS = (1025, 4097, 8193, 16384, (9, 0), (33, -1), (33, 1))

PAGED_AXES: Mapping[str, Sequence[Any]] = {**AXES, "kv_len": LENGTHS, "page_size": PAGE_SIZES}
PAGED_OPTION_AXES: Mapping[str, Sequence[Any]] = {
    **OPTION_AXES,
    "kv_len": (1, 100, (3, -1), (3, 0), (3, 1)),
    "page_size": (1, 16, 24),
}


@lru_cache
def paged_cases(grid: Grid) -> tuple[DecodeCase, ...]:
    """The named cases and a pairwise cover; the larger grids add a second cover over longer lengths."""
    cases = named_cases() + named_paged_option_cases()
    cases += cover(PAGED_AXES, EMULATOR_WORK) + cover(PAGED_OPTION_AXES, EMULATOR_WORK)
    larger: Mapping[str, Sequence[Any]] = {**PAGED_AXES, **OPTION_AXES, "group": GROUPS}
    if grid == "full":
        cases += cover({**PAGED_AXES, "kv_len": FULL_LENGTHS}, FULL_EMULATOR_WORK)
        cases += cover({**larger, "kv_len": FULL_LENGTHS}, FULL_EMULATOR_WORK)
    if grid == "device":
        cases += device_cases() + cover({**PAGED_AXES, "kv_len": DEVICE_LENGTHS}, DEVICE_WORK)
        cases += cover({**larger, "kv_len": DEVICE_LENGTHS}, DEVICE_WORK)
    return tuple(dict.fromkeys(cases))


def cover(axes: Mapping[str, Sequence[Any]], work: int) -> tuple[DecodeCase, ...]:
    """Cases in which every pair of values of two axes appears, wherever a case of at most `work` scores can hold it."""
    rows = cover_pairs(axes, lambda row: scores(in_keys(row)) <= work)
    return tuple(paged(in_keys(row)) for row in rows)


def in_keys(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with its length in keys; a page size that is not chosen yet counts as the smallest."""
    length = row.get("kv_len", 0)
    if isinstance(length, tuple):
        pages, more = length
        length = max(0, pages * row.get("page_size", min(PAGE_SIZES)) + more)
    return {**row, "kv_len": length}


def paged(row: Mapping[str, Any]) -> DecodeCase:
    """A row as a paged case; a table is as wide as it must be, or an entry or two wider."""
    case = case_of({**row, "ragged": row["ragged"]})
    return replace(case, page_size=row["page_size"], slack=(row["kv_len"] + row["group"]) % 3)


def named_cases() -> tuple[DecodeCase, ...]:
    """Cases that each stand for a fault seen somewhere."""
    model = DecodeCase((300,), num_kv_heads=8, group=4, num_splits=None, slack=0, page_size=16, label="model_shape")
    none = DecodeCase((0, 0, 0), group=4, num_splits=2, slack=0, page_size=16, label="no_keys")
    whole = DecodeCase((48, 96, 144), num_kv_heads=2, group=4, num_splits=2, slack=0, page_size=48, label="whole_pages")
    shared = DecodeCase((100, 33, 64), num_kv_heads=2, group=4, num_splits=3, slack=1, page_size=16)
    return (
        none,
        replace(none, slack=3, label="no_keys_in_wide_table"),
        replace(none, kv_lens=(70, 0, 129), num_splits=3, label="zero_in_middle"),
        *(replace(whole, page_size=size) for size in (1, 8, 16, 24, 48)),
        replace(whole, kv_lens=(256, 512), page_size=256),
        *(replace(whole, kv_lens=(47, 95, 143), page_size=size, label="one_short") for size in (8, 16, 24, 48)),
        replace(whole, kv_lens=(255, 511), page_size=256, label="one_short"),
        *(replace(whole, kv_lens=(49, 97, 145), page_size=size, label="one_more") for size in (8, 16, 24, 48)),
        replace(whole, kv_lens=(257, 513), page_size=256, label="one_more"),
        *(replace(shared, kv_lens=(300, 299), page_size=size, label="page_sizes") for size in NAMED_PAGE_SIZES),
        replace(shared, kv_lens=(300, 299), page_size=4, label="shuffled_pages"),
        *(replace(shared, page_size=size, label="shared_pages") for size in (1, 16, 24)),
        replace(shared, qo_len=4, causal=True, label="shared_pages"),
        *(replace(whole, kv_lens=(97,), group=g, page_size=24, label="odd_group") for g in (9, 11)),
        *(replace(whole, kv_lens=(97,), group=g, page_size=24, label="group_sizes") for g in NAMED_GROUPS),
        replace(whole, kv_lens=(100, 1), page_size=64, slack=2, label="poisoned_tail"),
        replace(whole, kv_lens=(5, 70, 0), page_size=16, slack=40, num_splits=None, label="planned_for_longer"),
        replace(whole, kv_lens=(40,), group=64, num_kv_heads=1, qo_len=2, page_size=8, label="largest_group"),
        replace(whole, kv_lens=(150, 20), logits="large", page_size=16, slack=1, label="large_logits"),
        replace(whole, kv_lens=(300,), page_size=256, num_splits=5, label="splits_inside_a_page"),
        replace(whole, kv_lens=(20,), page_size=16, num_splits=16, label="more_splits_than_tiles"),
        replace(whole, kv_lens=(20,), page_size=16, layout="huge_batch", group=2, label="offsets_past_2_31"),
        replace(whole, kv_lens=(20,), page_size=16, layout="huge_heads", group=2, label="offsets_past_2_31"),
        model,
        replace(model, kv_lens=(200, 33, 77), slack=2, layout="heads_first"),
        replace(model, kv_lens=(70,), qo_len=4, causal=True, layout="fused"),
    )


def device_cases() -> tuple[DecodeCase, ...]:
    """Named cases of real size, for a device."""
    model = DecodeCase((4096,), num_kv_heads=8, group=4, num_splits=None, slack=0, page_size=16, label="model_shape")
    return (
        model,
        replace(model, kv_lens=(16384,) * 8, page_size=64),
        replace(model, kv_lens=(4096, 1, 8191, 0, 513, 16384, 64, 65), slack=7),
        replace(model, kv_lens=(131072,), page_size=1),
        replace(model, kv_lens=(5000, 4999), page_size=256, qo_len=8, causal=True),
    )
