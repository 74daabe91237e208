"""Calls of the C++ entries that are wrong, past every check in Python: typed errors of their own, and no crash."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from calls import (
    INT32,
    Row,
    combine_entry,
    decode_entry,
    entry_inputs,
    every_second,
    fp32,
    ints,
    narrow,
    paged_entry,
    shifted,
    shows,
    zeros,
)

from sparkctl.runtime import Library

DECODE: tuple[Row, ...] = (
    ({"variant": 99}, IndexError, "variant 99 of family decode, accepted is 0 to LAST"),
    ({"combine": -1}, IndexError, "variant -1 of family combine, accepted is 0 to LAST"),
    (
        {"variant": 0},
        ValueError,
        "variant 0 (attn_combine.bf16.d64) is of family combine, accepted here is family decode",
    ),
    (
        {"q": zeros(2, 1, 8, 64, dtype=torch.float32)},
        TypeError,
        "q has dtype float32, accepted are bfloat16 and float16",
    ),
    (
        {"q": zeros(2, 8, 64)},
        ValueError,
        "q has shape [2, 8, 64], accepted is rank 4 [batch, qo_len, num_qo_heads, head_dim]",
    ),
    (
        {"q": narrow(2, 1, 8, 64)},
        ValueError,
        "q has stride 68 on axis 2, accepted is a multiple of 8 elements (16 bytes)",
    ),
    (
        {
            "q": zeros(2, 1, 7, 64),
            "out": zeros(2, 1, 7, 64),
            "lse": None,
            "part_acc": fp32(2, 1, 7, 2, 64),
            "part_max": fp32(2, 1, 7, 2),
            "part_sum": fp32(2, 1, 7, 2),
        },
        ValueError,
        "num_qo_heads is 7, accepted is a multiple of num_kv_heads (2)",
    ),
    ({**entry_inputs(heads=130)}, ValueError, "group (num_qo_heads / num_kv_heads) is 65, accepted is 1 to 64"),
    ({**entry_inputs(qo_len=17)}, ValueError, "qo_len is 17, accepted is 1 to 16"),
    (
        {**entry_inputs(head_dim=32)},
        ValueError,
        "dtype bf16 and head_dim 32, this variant accepts dtype bf16 and head_dim 64",
    ),
    ({**entry_inputs(splits=0)}, ValueError, "num_splits is 0, accepted is 1 to 65535"),
    (
        {"k": zeros(2, 20, 64)},
        ValueError,
        "k has shape [2, 20, 64], accepted is rank 4 [batch, kv_len, num_kv_heads, head_dim]",
    ),
    ({"k": zeros(1, 20, 2, 64)}, ValueError, "k has shape [1, 20, 2, 64], accepted is [2, 20, 2, 64]"),
    ({"k": zeros(2, 20, 2, 64, dtype=torch.float16)}, TypeError, "k has dtype float16, accepted is bfloat16"),
    ({"k": every_second(zeros(2, 20, 2, 128))}, ValueError, "k has last stride 2, accepted is 1"),
    (
        {"k": zeros(2, 20, 0, 64), "v": zeros(2, 20, 0, 64)},
        ValueError,
        "num_qo_heads is 8, accepted is a multiple of num_kv_heads (0)",
    ),
    ({"v": zeros(2, 19, 2, 64)}, ValueError, "v has shape [2, 19, 2, 64], accepted is [2, 20, 2, 64]"),
    (
        {"v": shifted(2, 20, 2, 64)},
        ValueError,
        "v starts 2 bytes past a multiple of 16, accepted is a multiple of 16 bytes",
    ),
    ({"kv_lens": torch.tensor([20, 7])}, TypeError, "kv_lens has dtype int64, accepted is int32"),
    ({"kv_lens": ints(20)}, ValueError, "kv_lens has shape [1], accepted is [2]"),
    ({"kv_lens": ints(20, 21)}, ValueError, "kv_lens[1] is 21, accepted is 0 to 20, the length of k"),
    (
        {"kv_lens": every_second(ints(1, 2, 3, 4))},
        ValueError,
        "kv_lens is not contiguous, accepted is a contiguous tensor",
    ),
    ({"out": zeros(2, 1, 8, 32)}, ValueError, "out has shape [2, 1, 8, 32], accepted is [2, 1, 8, 64]"),
    ({"out": zeros(2, 1, 8, 64, dtype=torch.float16)}, TypeError, "out has dtype float16, accepted is bfloat16"),
    (
        {"out": zeros(1, 1, 1, 64).expand(2, 1, 8, 64)},
        ValueError,
        "out has elements that share memory, accepted is a tensor without overlap",
    ),
    ({"lse": fp32(2, 8)}, ValueError, "lse has shape [2, 8], accepted is [2, 1, 8]"),
    ({"lse": zeros(2, 1, 8)}, TypeError, "lse has dtype bfloat16, accepted is float32"),
    ({"lse": every_second(fp32(2, 1, 16))}, ValueError, "lse is not contiguous, accepted is a contiguous tensor"),
    (
        {"part_acc": fp32(2, 1, 8, 3, 64)},
        ValueError,
        "part_acc has shape [2, 1, 8, 3, 64], accepted is [2, 1, 8, 2, 64]",
    ),
    ({"part_acc": zeros(2, 1, 8, 2, 64)}, TypeError, "part_acc has dtype bfloat16, accepted is float32"),
    (
        {"part_max": fp32(2, 1, 8)},
        ValueError,
        "part_max has shape [2, 1, 8], accepted is rank 4 [batch, qo_len, num_qo_heads, num_splits]",
    ),
    (
        {"part_sum": every_second(fp32(2, 1, 8, 4))},
        ValueError,
        "part_sum is not contiguous, accepted is a contiguous tensor",
    ),
    ({"window": -2}, ValueError, "window is -2, accepted is 0 or more, or -1 for none"),
    ({"scale": 1e39}, ValueError, "scale is 1e+39, accepted is 0, or 1e-30 to 1e+30 with either sign"),
    ({"scale": -1e-50}, ValueError, "scale is -1e-50, accepted is 0, or 1e-30 to 1e+30 with either sign"),
    ({"scale": math.nan}, ValueError, "scale is nan, accepted is 0, or 1e-30 to 1e+30 with either sign"),
    ({"softcap": -1.0}, ValueError, "softcap is -1, accepted is more than 0, or 0 for none"),
    ({"softcap": math.nan}, ValueError, "softcap is nan, accepted is more than 0, or 0 for none"),
    ({"mask": shows(1, 20)}, ValueError, "mask has shape [1, 20], accepted is [2, 8, 1, 20]"),
    ({"mask": shows(2, 8, 1, 19)}, ValueError, "mask has shape [2, 8, 1, 19], accepted is [2, 8, 1, 20]"),
    ({"mask": fp32(2, 8, 1, 20)}, TypeError, "mask has dtype float32, accepted is bool"),
    ({"mask": every_second(shows(2, 8, 1, 40))}, ValueError, "mask has last stride 2, accepted is 1"),
    ({"sinks": fp32(2)}, ValueError, "sinks has shape [2], accepted is [8]"),
    ({"sinks": zeros(8)}, TypeError, "sinks has dtype bfloat16, accepted is float32"),
    ({"sinks": every_second(fp32(16))}, ValueError, "sinks is not contiguous, accepted is a contiguous tensor"),
)

PAGED: tuple[Row, ...] = (
    (
        {"k_pages": zeros(5, 16, 64)},
        ValueError,
        "k_pages has shape [5, 16, 64], accepted is rank 4 [num_pages, page_size, num_kv_heads, head_dim]",
    ),
    ({"k_pages": zeros(5, 8, 2, 32)}, ValueError, "k_pages has shape [5, 8, 2, 32], accepted is [5, 8, 2, 64]"),
    (
        {"k_pages": zeros(5, 0, 2, 64), "v_pages": zeros(5, 0, 2, 64), "kv_lens": ints(0, 0)},
        ValueError,
        "page_size is 0, accepted is 1 to 1048576",
    ),
    (
        {"v_pages": zeros(5, 8, 2, 64, dtype=torch.float16)},
        TypeError,
        "v_pages has dtype float16, accepted is bfloat16",
    ),
    ({"v_pages": zeros(4, 8, 2, 64)}, ValueError, "v_pages has shape [4, 8, 2, 64], accepted is [5, 8, 2, 64]"),
    ({"page_table": ints(4, 1)}, ValueError, "page_table has shape [2], accepted is rank 2 [batch, max_pages]"),
    ({"page_table": ints(4, 1, 3).view(1, 3)}, ValueError, "page_table has shape [1, 3], accepted is [2, 3]"),
    ({"page_table": zeros(2, 3, dtype=torch.int64)}, TypeError, "page_table has dtype int64, accepted is int32"),
    ({"page_table": every_second(zeros(2, 6, dtype=INT32))}, ValueError, "page_table has last stride 2, accepted is 1"),
    (
        {"page_table": ints(4, 1, 5, 2, 0, 0).view(2, 3)},
        ValueError,
        "page_table[0, 2] is 5, accepted is 0 to 4, the pages of k_pages",
    ),
    (
        {"page_table": ints(4, 1, 3, -1, 0, 0).view(2, 3)},
        ValueError,
        "page_table[1, 0] is -1, accepted is 0 to 4, the pages of k_pages",
    ),
    (
        {"page_table": zeros(2, 2, dtype=INT32)},
        ValueError,
        "kv_lens[0] is 20, accepted is 0 to 16, the keys that page_table has room for",
    ),
    (
        {"kv_lens": ints(20, 25)},
        ValueError,
        "kv_lens[1] is 25, accepted is 0 to 24, the keys that page_table has room for",
    ),
    ({"mask": shows(2, 8, 1, 20)}, ValueError, "mask has shape [2, 8, 1, 20], accepted is [2, 8, 1, 24]"),
    ({"window": -2}, ValueError, "window is -2, accepted is 0 or more, or -1 for none"),
    ({"sinks": fp32(1, 8)}, ValueError, "sinks has shape [1, 8], accepted is [8]"),
)

COMBINE: tuple[Row, ...] = (
    ({"variant": 99}, IndexError, "variant 99 of family combine, accepted is 0 to LAST"),
    (
        {"out": zeros(2, 8, 64)},
        ValueError,
        "out has shape [2, 8, 64], accepted is rank 4 [batch, qo_len, num_qo_heads, head_dim]",
    ),
    (
        {"out": zeros(2, 1, 8, 64, dtype=torch.float32)},
        TypeError,
        "out has dtype float32, accepted are bfloat16 and float16",
    ),
    ({"out": zeros(2, 1, 8, 32)}, ValueError, "part_acc has shape [2, 1, 8, 2, 64], accepted is [2, 1, 8, 2, 32]"),
    ({"out": every_second(zeros(2, 1, 8, 128))}, ValueError, "out has last stride 2, accepted is 1"),
    (
        {"out": zeros(1, 1, 1, 64).expand(2, 1, 8, 64)},
        ValueError,
        "out has elements that share memory, accepted is a tensor without overlap",
    ),
    ({"lse": fp32(2, 1, 7)}, ValueError, "lse has shape [2, 1, 7], accepted is [2, 1, 8]"),
    (
        {"part_acc": fp32(2, 1, 8, 3, 64)},
        ValueError,
        "part_acc has shape [2, 1, 8, 3, 64], accepted is [2, 1, 8, 2, 64]",
    ),
    ({"part_max": fp32(2, 1, 8, 3)}, ValueError, "part_acc has shape [2, 1, 8, 2, 64], accepted is [2, 1, 8, 3, 64]"),
    ({"part_sum": zeros(2, 1, 8, 2)}, TypeError, "part_sum has dtype bfloat16, accepted is float32"),
    ({"sinks": fp32(7)}, ValueError, "sinks has shape [7], accepted is [8]"),
    ({"sinks": zeros(8, dtype=torch.float64)}, TypeError, "sinks has dtype float64, accepted is float32"),
)

ENTRIES = {"decode": decode_entry, "paged_decode": paged_entry, "combine": combine_entry}
CALLS = [
    *(("decode", *row) for row in DECODE),
    *(("paged_decode", *row) for row in PAGED),
    *(("combine", *row) for row in COMBINE),
]


@pytest.mark.parametrize(("entry", "changes", "error", "text"), CALLS)
def test_a_wrong_call_of_an_entry_is_a_typed_error(
    small_library: Library, entry: str, changes: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as caught:
        ENTRIES[entry](small_library, **changes)
    assert type(caught.value) is error
    last = len(small_library.index) - 1
    assert str(caught.value) == text.replace("LAST", str(last))


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_the_call_that_is_made_wrong_is_right(small_library: Library, entry: Callable[..., None]) -> None:
    entry(small_library)
    entry(small_library, lse=None)


@pytest.mark.parametrize(("entry", "name"), [("decode", "q"), ("paged_decode", "page_table"), ("combine", "part_acc")])
def test_what_is_no_tensor_is_a_type_error_of_the_binding(small_library: Library, entry: str, name: str) -> None:
    with pytest.raises(TypeError, match="Mismatched type on argument"):
        ENTRIES[entry](small_library, **{name: None})
