"""The cases of the prefill kernels: pairwise covers of the axes, and named cases for what pairs do not reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from sparkctl.testing.cover import cover_pairs
from sparkctl.testing.model import Grid, PrefillCase, padded_rows

# The work a case may be: the CUDA-core kernel takes the emulator 2 µs a score.
EMULATOR_WORK = 24_000
FULL_EMULATOR_WORK = 250_000
DEVICE_WORK = 400_000_000

PAGE_SIZES = (1, 8, 16, 24, 48, 64, 256)
AXES: Mapping[str, Sequence[Any]] = {
    "kv_len": (0, 1, 15, 16, 17, 33, 63, 64, 65, 100, 129, 300),
    "qo_len": (1, 2, 15, 16, 17, 63, 64, 65, 100),
    "group": (1, 2, 3, 5, 6, 7, 8, 12, 32),
    "form": ("dense", "padded", "packed", "packed_q", "packed_kv"),
    "mask": ("none", "rank2", "rank3", "rank3_row", "rank4", "rank4_heads", "rank4_heads_row"),
    "layout": ("contiguous", "heads_first", "padded", "fused", "mixed"),
    "window": (None, 0, 7, 64),
    "batch": (1, 3),
    "num_kv_heads": (1, 2),
    "causal": (True, False),
    "softcap": (None, 2.0),
    "sinks": (False, True),
    "return_lse": (True, False),
}
PAGED_AXES: Mapping[str, Sequence[Any]] = {**AXES, "form": ("padded", "packed_q"), "page_size": PAGE_SIZES}
LONG: Mapping[str, Sequence[Any]] = {
    "kv_len": (1, 127, 128, 192, 257, 513, 1025),
    "qo_len": (1, 31, 127, 128, 129, 200, 257),
}
DEVICE: Mapping[str, Sequence[Any]] = {
    "kv_len": (0, 1, 127, 1023, 2048, 2049, 4096),
    "qo_len": (1, 17, 127, 1000, 2048, 4096),
}


@lru_cache
def prefill_cases(grid: Grid) -> tuple[PrefillCase, ...]:
    """Contiguous and packed K and V: named cases and a pairwise cover; the larger grids add a cover of longer ones."""
    return tuple(dict.fromkeys(named_cases() + covers(AXES, grid) + (device_cases() if grid == "device" else ())))


@lru_cache
def paged_prefill_cases(grid: Grid) -> tuple[PrefillCase, ...]:
    """The same for K and V in pages."""
    larger = tuple(replace(case, page_size=64, packed_kv=False, slack=1) for case in device_cases())
    return tuple(dict.fromkeys(paged_cases() + covers(PAGED_AXES, grid) + (larger if grid == "device" else ())))


def covers(axes: Mapping[str, Sequence[Any]], grid: Grid) -> tuple[PrefillCase, ...]:
    """The quick cover, and the larger grid's."""
    cases = cover(axes, EMULATOR_WORK)
    if grid == "full":
        cases += cover({**axes, **LONG}, FULL_EMULATOR_WORK)
    if grid == "device":
        cases += cover({**axes, **DEVICE}, DEVICE_WORK)
    return cases


def cover(axes: Mapping[str, Sequence[Any]], work: int) -> tuple[PrefillCase, ...]:
    """Cases in which every pair of values of two axes appears, wherever a case of at most `work` scores can hold it."""
    return tuple(case_of(row) for row in cover_pairs(axes, lambda row: scores(row) <= work))


def scores(row: Mapping[str, Any]) -> int:
    """PrefillCase.work of a row of axis values; an axis that is not there counts as the one that costs least."""
    packed_q = row.get("form", "packed") in ("packed", "packed_q")
    packed_kv = row.get("form", "packed") != "dense"
    batch = row.get("batch", 1)
    queries = query_lens(row.get("qo_len", 1), batch, packed_q)
    keys = key_lens(row.get("kv_len", 0), batch, packed_kv)
    rows = (padded_rows(int(row.get("group", 1)) * qo) * kv for qo, kv in zip(queries, keys, strict=True))
    return sum(rows) * int(row.get("num_kv_heads", 1))


def query_lens(qo_len: int, batch: int, ragged: bool) -> tuple[int, ...]:
    """The query lengths of a batch whose longest is qo_len; a ragged one has shorter ones around it."""
    return (qo_len // 2, qo_len, qo_len - qo_len // 3) if batch == 3 and ragged else (qo_len,) * batch


def key_lens(kv_len: int, batch: int, ragged: bool) -> tuple[int, ...]:
    """The key lengths of a batch whose longest is kv_len, in another order than the queries'."""
    return (kv_len * 2 // 3, kv_len // 7, kv_len) if batch == 3 and ragged else (kv_len,) * batch


def case_of(row: Mapping[str, Any]) -> PrefillCase:
    """A row of axis values as a case; the unused keys behind a ragged batch change with the row."""
    form, page_size = row["form"], row.get("page_size")
    packed_q, packed_kv = form in ("packed", "packed_q"), form in ("packed", "packed_kv")
    slack = (0, 1, 7, 64)[(row["kv_len"] + row["group"] + row["qo_len"]) % 4] if page_size is None else row["group"] % 3
    names = ("num_kv_heads", "group", "causal", "window", "softcap", "mask", "sinks", "layout", "return_lse")
    return PrefillCase(
        qo_lens=query_lens(row["qo_len"], row["batch"], packed_q),
        kv_lens=key_lens(row["kv_len"], row["batch"], form != "dense"),
        packed_q=packed_q,
        packed_kv=packed_kv,
        slack=None if packed_kv or form == "dense" else slack,
        page_size=page_size,
        **{name: row[name] for name in names},
    )


def named_cases() -> tuple[PrefillCase, ...]:
    """Cases that each stand for a fault seen somewhere; docs/testing.md lists them."""
    causal = PrefillCase((40,), (100,), num_kv_heads=2, group=2, causal=True, label="fewer_queries_than_keys")
    packed = PrefillCase((17, 0, 40), (33, 20, 40), group=3, packed_q=True, packed_kv=True, causal=True)
    masked = PrefillCase((20,), (40,), num_kv_heads=2, group=2, mask="rank4_heads", label="mask_all_rows")
    return (
        *common_cases(),
        PrefillCase((9,), (0,), group=2, label="no_keys"),
        PrefillCase((9,), (0,), group=2, sinks=True, label="no_keys"),
        causal,
        replace(causal, qo_lens=(64,), kv_lens=(64,), label="as_many_keys_as_queries"),
        replace(causal, qo_lens=(129,), kv_lens=(129,), num_kv_heads=1, group=1, label="as_many_keys_as_queries"),
        replace(causal, qo_lens=(1,), kv_lens=(77,), group=5, label="one_query"),
        replace(causal, qo_lens=(70, 70), kv_lens=(90, 41), slack=3, num_kv_heads=1, label="causal_across_tiles"),
        replace(causal, window=5, label="window_edge"),
        replace(causal, causal=False, window=5, label="window_edge"),
        replace(causal, window=64, qo_lens=(30,), kv_lens=(150,), group=4, num_kv_heads=1, label="window_edge"),
        replace(causal, kv_lens=(70,), softcap=1.5, label="softcap"),
        masked,
        replace(masked, sinks=True),
        *(replace(masked, mask=kind, causal=True, label="mask_kinds") for kind in ("rank2", "rank3", "rank4_heads")),
        replace(packed, label="ragged_causal"),
        replace(packed, qo_lens=(0, 33, 0), kv_lens=(5, 33, 0), label="empty_sequences"),
        replace(packed, qo_lens=(0, 0, 0), label="empty_sequences"),
        replace(packed, kv_lens=(0, 0, 0), sinks=True, label="no_keys"),
        replace(packed, qo_lens=(5, 70, 1), kv_lens=(50, 3, 1), mask="rank4", label="ragged_mask"),
        replace(packed, qo_lens=(16, 64, 33), kv_lens=(16, 64, 33), group=1, window=9, label="ragged_window"),
        replace(packed, qo_lens=(2, 2, 2), kv_lens=(1, 1, 1), group=1, layout="huge_len", label="offsets_past_2_31"),
        PrefillCase((2, 2, 2), (2, 3, 1), group=2, slack=1, layout="huge_batch", label="offsets_past_2_31"),
        PrefillCase((2,), (3,), group=2, layout="huge_len", label="offsets_past_2_31"),
        PrefillCase((2,), (3,), num_kv_heads=2, group=2, layout="huge_heads", label="offsets_past_2_31"),
    )


def common_cases() -> tuple[PrefillCase, ...]:
    """Named cases of either kind of K and V, in the form that both take."""
    ragged = PrefillCase(
        (40, 40), (50, 9), num_kv_heads=2, group=2, slack=5, causal=True, label="more_queries_than_keys"
    )
    return (
        replace(ragged, label="more_queries_than_keys"),
        replace(ragged, qo_lens=(12, 12, 12), kv_lens=(70, 0, 1), slack=60, label="poisoned_tail"),
        replace(ragged, kv_lens=(80, 60), logits="large", label="large_logits"),
        replace(ragged, qo_lens=(40, 40), kv_lens=(40, 3), sinks=True, label="rows_without_keys"),
        *(
            replace(ragged, qo_lens=(11,), kv_lens=(67,), group=g, num_kv_heads=1, label="odd_group")
            for g in (5, 7, 11, 13)
        ),
        replace(ragged, qo_lens=(3,), kv_lens=(40,), group=64, num_kv_heads=1, label="largest_group"),
        replace(ragged, qo_lens=(23,), kv_lens=(60,), group=4, num_kv_heads=2, slack=0, label="model_shape"),
    )


def paged_cases() -> tuple[PrefillCase, ...]:
    """Named cases over pages: lengths around whole pages, shared and shuffled pages, packed queries."""
    whole = PrefillCase((20,) * 3, (48, 96, 0), group=2, slack=0, page_size=48, causal=True, label="whole_pages")
    packed = PrefillCase((17, 0, 40), (33, 20, 40), group=3, packed_q=True, slack=1, page_size=16, causal=True)
    shared = replace(whole, kv_lens=(100, 33, 64), slack=1, page_size=16, label="shared_pages")
    return (
        *(replace(case, page_size=16, slack=case.slack % 3 if case.slack else 0) for case in common_cases()),
        *(replace(whole, page_size=size) for size in (1, 8, 16, 24, 48)),
        *(replace(whole, kv_lens=(47, 95, 1), page_size=size, label="one_short") for size in (8, 24, 48)),
        *(replace(whole, kv_lens=(49, 97, 1), page_size=size, label="one_more") for size in (8, 24, 48)),
        shared,
        replace(shared, page_size=1),
        replace(whole, kv_lens=(0, 0, 0), slack=2, label="no_keys"),
        replace(packed, label="ragged_causal"),
        replace(packed, qo_lens=(0, 33, 0), label="empty_sequences"),
        replace(packed, qo_lens=(16, 64, 33), kv_lens=(200, 64, 33), group=1, window=9, label="ragged_window"),
        replace(packed, mask="rank4_heads", label="ragged_mask"),
        replace(whole, qo_lens=(20,), kv_lens=(20,), page_size=16, layout="huge_batch", label="offsets_past_2_31"),
    )


def device_cases() -> tuple[PrefillCase, ...]:
    """Named cases of real size, for a device."""
    model = PrefillCase((2048,), (2048,), num_kv_heads=8, group=4, causal=True, label="model_shape")
    packed = PrefillCase(
        (1000, 0, 2048, 1, 513), (1000, 64, 4096, 2000, 513), num_kv_heads=2, group=4, packed_q=True, packed_kv=True
    )
    return (
        model,
        replace(model, qo_lens=(4096,), kv_lens=(4096,)),
        replace(model, qo_lens=(2048,) * 2, kv_lens=(2048,) * 2, causal=False),
        replace(model, qo_lens=(300,), kv_lens=(4096,), window=1000, softcap=20.0, sinks=True),
        replace(packed, causal=True, label="ragged_causal"),
        replace(packed, causal=True, mask="rank4_heads", label="ragged_mask"),
    )
