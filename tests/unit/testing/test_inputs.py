"""Inputs: the values do not depend on the layout, and what must not be touched is poisoned."""

import dataclasses
import math

import pytest
import torch

from sparkctl.testing.inputs import ABSURD_PAGE, make_decode_inputs, make_partials, place_kv, place_q
from sparkctl.testing.model import CombineCase, DecodeCase

CASE = DecodeCase((3, 0, 5), num_kv_heads=2, group=3, qo_len=2, slack=2)
LAYOUTS = ["contiguous", "heads_first", "padded", "fused", "mixed"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_changes_strides_and_no_value(layout):
    q = torch.randn(3, 2, 6, 32).bfloat16()
    k, v = torch.randn(3, 7, 2, 32).bfloat16(), torch.randn(3, 7, 2, 32).bfloat16()
    placed_q = place_q(q, layout)
    placed_k, placed_v = place_kv(k, v, layout)
    for placed, values in ((placed_q, q), (placed_k, k), (placed_v, v)):
        assert torch.equal(placed, values)
        assert placed.stride(-1) == 1
        assert all(stride * 2 % 16 == 0 for stride in placed.stride()[:-1])
        assert placed.data_ptr() % 16 == 0
    assert placed_k.is_contiguous() == (layout in ("contiguous", "mixed"))
    assert (placed_k.stride() != placed_v.stride()) == (layout == "mixed")


def test_padding_between_rows_is_poisoned():
    k = torch.randn(2, 3, 2, 32).half()
    placed, _ = place_kv(k, k, "padded")
    storage = torch.empty(0, dtype=torch.float16).set_(placed.untyped_storage())
    assert int((~storage.isnan()).sum()) == k.numel()


def test_keys_past_the_end_are_poisoned_and_no_others():
    inputs = make_decode_inputs(CASE, "bf16", 32, "cpu")
    for tensor in (inputs.k, inputs.v):
        for b, n in enumerate(CASE.kv_lens):
            assert not tensor[b, :n].isnan().any()
            assert tensor[b, n:].isnan().all()
    assert inputs.kv_lens.tolist() == [3, 0, 5]
    assert inputs.k.shape == (3, 7, 2, 32)


def test_keys_that_a_window_hides_from_every_query_are_poisoned():
    inputs = make_decode_inputs(DecodeCase((9, 4), qo_len=2, window=3, slack=1), "bf16", 32, "cpu")
    for tensor in (inputs.k, inputs.v):
        assert tensor.isnan().all(-1)[..., 0].tolist() == [[True] * 4 + [False] * 5 + [True], [False] * 4 + [True] * 6]


def test_table_entries_before_a_window_are_absurd_and_their_pages_poisoned():
    case = DecodeCase((9, 4), qo_len=2, window=3, slack=1, page_size=2)
    pages = make_decode_inputs(case, "bf16", 32, "cpu").pages
    assert (pages.table == ABSURD_PAGE).tolist() == [[True] * 2 + [False] * 3 + [True], [False] * 2 + [True] * 4]
    used = pages.table[pages.table != ABSURD_PAGE].long()
    assert int((~pages.k.isnan().all(-1)).sum()) == 5 + 4
    assert not pages.k[used[1:2]].isnan().any()


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("rank2", (2, 7)),
        ("rank3", (3, 2, 7)),
        ("rank3_row", (3, 1, 7)),
        ("rank4", (3, 1, 2, 7)),
        ("rank4_row", (3, 1, 1, 7)),
        ("rank4_heads", (3, 6, 2, 7)),
        ("rank4_heads_row", (3, 6, 1, 7)),
    ],
)
def test_a_mask_is_a_strided_view_of_its_kinds_shape(kind, shape):
    mask = make_decode_inputs(dataclasses.replace(CASE, mask=kind), "bf16", 32, "cpu").mask
    assert (mask.dtype, tuple(mask.shape)) == (torch.bool, shape)
    assert mask.stride(-1) == 1 and mask.stride(-2) == 8
    room = torch.empty(0, dtype=torch.bool).set_(mask.untyped_storage())
    assert int(room.sum()) - int(mask.sum()) == room.numel() - mask.numel()


def test_a_mask_shows_most_keys_and_hides_whole_rows():
    case = DecodeCase((400,), group=16, qo_len=4, mask="rank4_heads")
    mask = make_decode_inputs(case, "bf16", 32, "cpu").mask
    shown = mask.float().mean(-1)
    assert 0 < int((shown == 0).sum()) < 20
    assert 0.55 < shown[shown > 0].mean() < 0.65
    labelled = dataclasses.replace(case, label="mask_all_rows")
    assert not make_decode_inputs(labelled, "bf16", 32, "cpu").mask.any()
    labelled = dataclasses.replace(case, label="mask_first_tile_hidden")
    assert not make_decode_inputs(labelled, "bf16", 32, "cpu").mask[..., :64].any()


def test_sinks_hold_none_and_a_large_one():
    sinks = make_decode_inputs(dataclasses.replace(CASE, sinks=True), "bf16", 32, "cpu").sinks
    assert (sinks.dtype, sinks.shape) == (torch.float32, (6,))
    assert sinks[0] == -math.inf and sinks[-1] == 5.0 and sinks[3:-1].abs().max() < 5
    assert sinks[1] == math.inf and sinks[2] > 3e38 and (sinks[2] * 1.5).isinf()
    few = make_decode_inputs(dataclasses.replace(CASE, sinks=True, group=2), "bf16", 32, "cpu").sinks
    assert few.tolist()[::3] == [-math.inf, 5.0] and few[1:-1].isfinite().all()
    assert make_decode_inputs(CASE, "bf16", 32, "cpu").sinks is None


def test_the_same_case_has_the_same_values_and_another_seed_others():
    first, again, other = (make_decode_inputs(CASE, "bf16", 32, "cpu", seed).q for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_large_logits_come_near_a_thousand():
    case = DecodeCase((150,), num_kv_heads=2, group=4, logits="large")
    inputs = make_decode_inputs(case, "bf16", 128, "cpu")
    scores = torch.einsum("bqhd,bkhd->bhqk", inputs.q.float()[:, :, :2], inputs.k.float())
    assert 700 < scores.abs().max() < 2000


@pytest.mark.parametrize(
    ("layout", "case"),
    [
        ("huge_batch", DecodeCase((2, 3), slack=2)),
        ("huge_len", DecodeCase((3,))),
        ("huge_heads", DecodeCase((3,), num_kv_heads=2)),
    ],
)
def test_a_huge_layout_passes_2_31_elements_with_little_memory(layout, case):
    plain = make_decode_inputs(case, "bf16", 32, "cpu")
    k, v = place_kv(plain.k, plain.v, layout)
    torch.testing.assert_close(k, plain.k, equal_nan=True, rtol=0, atol=0)
    torch.testing.assert_close(v, plain.v, equal_nan=True, rtol=0, atol=0)
    last = sum((size - 1) * stride for size, stride in zip(k.shape, k.stride(), strict=True))
    assert 2**31 < last < 2**32
    wrapped = torch.as_strided(k, (1,), (1,), k.storage_offset() + last - 2**32)  # where 32 bits would end up
    assert float(wrapped[0]) == 0.0
    resident_kib = int(next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1])  # noqa: SIM115, PTH123
    assert resident_kib < 3 * 2**20


@pytest.mark.parametrize(
    ("pattern", "empty"),
    [
        ("live", []),
        ("empty_first", [0, 1]),
        ("empty_middle", [2, 3]),
        ("empty_last", [4, 5]),
        ("one_live", [0, 1, 2, 4, 5]),
        ("all_empty", [0, 1, 2, 3, 4, 5]),
    ],
)
def test_a_pattern_empties_its_splits(pattern, empty):
    partials = make_partials(CombineCase(2, 1, 3, 6, pattern), 32, "cpu")
    for split in range(6):
        is_empty = partials.max[..., split] == -math.inf
        assert is_empty.all() if split in empty else not is_empty.any()
        assert bool(partials.acc[..., split, :].isnan().all()) == (split in empty)


def test_some_rows_are_all_empty_under_row_empty():
    partials = make_partials(CombineCase(3, 2, 8, 4, "row_empty"), 32, "cpu")
    dead = (partials.sum == 0).all(-1)
    assert dead.any() and not dead.all()


def test_cases_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        CASE.group = 2
