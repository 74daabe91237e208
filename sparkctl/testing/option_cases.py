"""The cases of the options that every decode kernel takes: windows, soft-caps, masks, sinks, and all at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sparkctl.testing.model import DecodeCase

# A cover of their own, over few and short lengths: beside the larger axes every second case would hide its keys.
OPTION_AXES: Mapping[str, Sequence[Any]] = {
    "mask": ("none", "rank2", "rank3", "rank3_row", "rank4", "rank4_row", "rank4_heads", "rank4_heads_row"),
    "kv_len": (1, 33, 100, 200),
    "window": (None, 0, 20, 100),
    "group": (1, 3, 4, 12),
    "qo_len": (1, 2, 4),
    "num_splits": (1, 2, None),
    "softcap": (None, 2.0, 30.0),
    "batch": (1, 3),
    "sinks": (False, True),
    "causal": (False, True),
    "ragged": (False, True),
    "num_kv_heads": (1, 2),
    "return_lse": (True, False),
    "layout": ("contiguous", "heads_first"),
}


def named_option_cases() -> tuple[DecodeCase, ...]:
    """Cases that each stand for a fault; docs/testing.md lists them."""
    window = DecodeCase((300,), num_kv_heads=2, group=4, num_splits=3, window=150)
    capped = DecodeCase((150,), num_kv_heads=2, group=4, num_splits=3, softcap=2.0, label="softcap_at_half")
    sinks = DecodeCase((0, 5, 0), num_kv_heads=2, group=3, num_splits=2, slack=3, sinks=True)
    hidden = DecodeCase((200,), num_kv_heads=2, group=4, qo_len=2, mask="rank4_heads")
    return (
        replace(window, label="window_across_splits"),
        replace(window, qo_len=4, causal=True, label="window_across_splits"),
        replace(window, kv_lens=(100,), num_splits=2, window=5, label="window_smaller_than_tile"),
        replace(window, kv_lens=(70,), num_splits=2, window=0, label="window_of_one"),
        replace(window, kv_lens=(70,), num_splits=2, qo_len=4, window=0, causal=True, label="window_of_one"),
        replace(window, kv_lens=(70,), qo_len=16, window=5, causal=True, label="window_smaller_than_queries"),
        replace(window, kv_lens=(300, 40, 0), window=64, slack=9, label="window_in_ragged_batch"),
        replace(
            window, kv_lens=(30,), qo_len=16, num_splits=1, window=500, causal=True, label="window_before_the_start"
        ),
        DecodeCase((4097,), num_kv_heads=2, group=4, num_splits=2, window=20, label="window_with_long_cache"),
        capped,
        replace(capped, logits="large", softcap=30.0, label="softcap_and_large_logits"),
        replace(capped, logits="large", softcap=0.5, label="softcap_and_large_logits"),  # exp(2x) is infinite
        replace(sinks, label="sinks_without_keys"),
        replace(sinks, kv_lens=(3, 0, 6), qo_len=8, causal=True, label="sinks_and_rows_without_keys"),
        replace(sinks, kv_lens=(200, 7, 70), num_splits=7, label="sinks_once"),
        DecodeCase((70,), group=4, qo_len=2, num_splits=2, mask="rank2", label="mask_all_rows"),
        DecodeCase((70, 9), group=4, num_splits=2, mask="rank3_row", sinks=True, slack=1, label="mask_all_rows"),
        replace(hidden, label="mask_first_tile_hidden"),
        replace(hidden, num_splits=4, label="mask_first_tile_hidden"),
        *every_option(),
    )


def every_option() -> tuple[DecodeCase, ...]:
    """All options at once."""
    together = DecodeCase(
        (200, 130),
        num_kv_heads=2,
        group=4,
        qo_len=4,
        num_splits=3,
        causal=True,
        slack=9,
        window=90,
        softcap=5.0,
        mask="rank4_heads",
        sinks=True,
        label="every_option",
    )
    return (together, replace(together, group=5, qo_len=16, mask="rank2", return_lse=False))


def named_paged_option_cases() -> tuple[DecodeCase, ...]:
    """The same over pages: masks over the tails of pages, windows that leave pages behind."""
    window = DecodeCase((143,), num_kv_heads=2, group=4, num_splits=2, slack=0, page_size=48, window=30)
    paged = (replace(case, page_size=24, slack=case.slack or 0) for case in named_option_cases())
    return (
        *paged,
        replace(window, label="window_starts_inside_a_page"),
        replace(window, kv_lens=(144,), window=47, label="window_starts_with_a_page"),
        *(
            replace(window, kv_lens=(300, 40, 0), window=20, page_size=n, label="pages_before_a_window")
            for n in (1, 16)
        ),
        replace(window, kv_lens=(600,), window=100, page_size=256, qo_len=2, label="pages_before_a_window"),
        replace(window, kv_lens=(47, 95, 1), window=None, qo_len=2, mask="rank3", label="mask_over_page_tails"),
        replace(window, kv_lens=(49, 97, 3), window=None, slack=1, mask="rank4_heads", label="mask_over_page_tails"),
    )
