"""The cases of the decode kernels: a pairwise cover of the axes, and named cases for what pairs do not reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from sparkctl.testing.cover import cover_pairs
from sparkctl.testing.model import DecodeCase, Grid, padded_rows
from sparkctl.testing.option_cases import OPTION_AXES, named_option_cases

# The work a case may be. A warp-wide mma takes the emulator 2 µs, so this holds a case to tenths of a second there.
EMULATOR_WORK = 140_000
FULL_EMULATOR_WORK = 1_200_000
DEVICE_WORK = 40_000_000
SPLIT_KEYS = 64  # keys in the usual tile; num_splits "max" is one tile a split

GROUPS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 32)
NAMED_GROUPS = (1, 2, 3, 5, 6, 7, 12, 32)  # each its own case: some failed at the first decode elsewhere
KV_LENS = (0, 1, 15, 16, 17, 31, 33, 63, 64, 65, 100, 513, 4097)
FULL_KV_LENS = (2, 8, 32, 48, 127, 128, 129, 192, 255, 257, 511, 640, 1023, 1025, 2048, 4097)
DEVICE_KV_LENS = (127, 128, 129, 513, 1023, 1024, 1025, 4097, 8193, 16384)

AXES: Mapping[str, Sequence[Any]] = {
    "kv_len": KV_LENS,
    "group": GROUPS,
    "layout": ("contiguous", "heads_first", "padded", "fused", "mixed"),
    "num_splits": (1, 2, 7, "max", None),
    "qo_len": (1, 2, 4, 16),
    "num_kv_heads": (1, 2, 8),
    "batch": (1, 3),
    "ragged": (False, True),
    "causal": (False, True),
    "return_lse": (True, False),
}


@lru_cache
def decode_cases(grid: Grid) -> tuple[DecodeCase, ...]:
    """The named cases and a pairwise cover; the larger grids add a second cover over other and longer lengths."""
    cases = named_cases() + named_option_cases() + cover(AXES, EMULATOR_WORK) + cover(OPTION_AXES, EMULATOR_WORK)
    if grid == "full":
        cases += cover({**AXES, "kv_len": FULL_KV_LENS}, FULL_EMULATOR_WORK)
        cases += cover({**AXES, **OPTION_AXES, "kv_len": FULL_KV_LENS, "group": GROUPS}, FULL_EMULATOR_WORK)
    if grid == "device":
        cases += device_cases() + cover({**AXES, "kv_len": DEVICE_KV_LENS}, DEVICE_WORK)
        cases += cover({**AXES, **OPTION_AXES, "kv_len": DEVICE_KV_LENS, "group": GROUPS}, DEVICE_WORK)
    return tuple(dict.fromkeys(cases))


def cover(axes: Mapping[str, Sequence[Any]], work: int) -> tuple[DecodeCase, ...]:
    """Cases in which every pair of values of two axes appears, wherever a case of at most `work` scores can hold it."""
    rows = cover_pairs(axes, lambda row: scores(row) <= work)
    return tuple(case_of(row) for row in rows)


def scores(row: Mapping[str, Any]) -> int:
    """DecodeCase.work of a row of axis values; an axis that is not there counts as the one that costs least."""
    keys = sum(lengths(row.get("kv_len", 0), row.get("batch", 1), row.get("ragged", row.get("batch", 1) > 1)))
    return keys * int(row.get("num_kv_heads", 1)) * padded_rows(int(row.get("group", 1)) * int(row.get("qo_len", 1)))


def lengths(kv_len: int, batch: int, ragged: bool) -> tuple[int, ...]:
    """The lengths of a batch whose longest is `kv_len`; a ragged one has it in the middle, beside shorter ones."""
    if batch == 1 or not ragged:
        return (kv_len,) * batch
    return (kv_len * 2 // 3, kv_len, kv_len // 7)


def case_of(row: Mapping[str, Any]) -> DecodeCase:
    """A row of axis values as a case; the unused keys behind a ragged batch change with the row."""
    kv_len = row["kv_len"]
    splits = row["num_splits"]
    slack = (0, 1, 7, 64)[(kv_len + row["group"] + row["qo_len"]) % 4] if row["ragged"] else None
    return DecodeCase(
        kv_lens=lengths(kv_len, row["batch"], row["ragged"]),
        num_kv_heads=row["num_kv_heads"],
        group=row["group"],
        qo_len=row["qo_len"],
        num_splits=max(1, -(-kv_len // SPLIT_KEYS)) if splits == "max" else splits,
        causal=row["causal"],
        layout=row["layout"],
        return_lse=row["return_lse"],
        slack=slack,
        **{name: row[name] for name in ("window", "softcap", "mask", "sinks") if name in row},
    )


def named_cases() -> tuple[DecodeCase, ...]:
    """Cases that each stand for a fault seen somewhere; docs/testing.md lists them."""
    model = DecodeCase((300,), num_kv_heads=8, group=4, num_splits=None, label="model_shape")
    tiles = DecodeCase((0,), num_kv_heads=2, group=4, num_splits=3)
    masked = DecodeCase((3,), group=2, qo_len=8, causal=True, num_splits=2, label="rows_without_keys")
    return (
        DecodeCase((0,), group=4, label="no_keys"),
        DecodeCase((0,), group=4, num_splits=4, slack=64, label="no_keys_in_long_cache"),
        DecodeCase((0, 0, 0), num_kv_heads=2, group=2, num_splits=None, slack=16, label="no_keys_in_batch"),
        DecodeCase((0, 70, 1), num_kv_heads=2, group=4, num_splits=2, slack=3, label="zero_first"),
        DecodeCase((70, 0, 129), num_kv_heads=2, group=3, num_splits=3, slack=0, label="zero_in_middle"),
        DecodeCase((129, 70, 0), num_kv_heads=1, group=8, num_splits=3, slack=1, label="zero_last"),
        masked,
        replace(masked, kv_lens=(3, 0, 20), qo_len=16, slack=5),
        replace(masked, kv_lens=(16,), qo_len=16, group=5, num_splits=1, label="as_many_keys_as_queries"),
        replace(masked, kv_lens=(65,), qo_len=16, group=4, num_splits=2, label="mask_across_tiles"),
        DecodeCase((20,), num_kv_heads=2, group=4, num_splits=16, label="more_splits_than_tiles"),
        DecodeCase((513, 5, 130), group=4, num_splits=9, slack=7, label="empty_last_splits"),
        *(replace(tiles, kv_lens=(n,), label="tile_counts") for n in (64, 128, 192, 320, 129, 193)),
        *(DecodeCase((97,), num_kv_heads=2, group=g, num_splits=2, label="group_sizes") for g in NAMED_GROUPS),
        *(DecodeCase((97,), num_kv_heads=2, group=g, num_splits=2, label="odd_group") for g in (9, 11, 13)),
        DecodeCase((40,), group=17, num_splits=2, label="second_pass_of_one_row"),
        DecodeCase((40,), group=64, qo_len=2, num_splits=2, label="largest_group"),
        DecodeCase((150,), num_kv_heads=2, group=4, num_splits=3, logits="large", label="large_logits"),
        DecodeCase((150, 20), num_kv_heads=2, group=8, qo_len=2, num_splits=3, causal=True, logits="large", slack=9),
        DecodeCase((100, 1), num_kv_heads=2, group=4, num_splits=2, slack=100, label="poisoned_tail"),
        DecodeCase((5, 70, 0), num_kv_heads=2, group=4, num_splits=None, slack=600, label="planned_for_longer"),
        DecodeCase((70,), num_kv_heads=3, group=4, num_splits=2, label="kv_heads_unlike_head_dim"),
        DecodeCase((2, 3), group=4, slack=2, num_splits=1, layout="huge_batch", label="offsets_past_2_31"),
        DecodeCase((3,), group=4, num_splits=1, layout="huge_len", label="offsets_past_2_31"),
        DecodeCase((3,), num_kv_heads=2, group=2, num_splits=1, layout="huge_heads", label="offsets_past_2_31"),
        model,
        replace(model, kv_lens=(200, 33, 77), slack=55, layout="heads_first"),
        replace(model, kv_lens=(70,), qo_len=4, causal=True),
    )


def device_cases() -> tuple[DecodeCase, ...]:
    """Named cases of real size, for a device."""
    model = DecodeCase((4096,), num_kv_heads=8, group=4, num_splits=None, label="model_shape")
    return (
        model,
        replace(model, kv_lens=(16384,) * 8),
        replace(model, kv_lens=(4096, 1, 8191, 0, 513, 16384, 64, 65), slack=100),
        replace(model, kv_lens=(131072,)),
        replace(model, kv_lens=(8192,), qo_len=8, causal=True),
        replace(model, kv_lens=(5000,), group=16, num_kv_heads=4, layout="heads_first"),
        replace(model, kv_lens=(2000,) * 64, group=8, num_kv_heads=1),
        replace(model, kv_lens=(4096,), num_splits=64, logits="large"),
        replace(model, kv_lens=(3000,), num_splits=200, label="more_splits_than_tiles"),
    )
