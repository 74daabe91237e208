"""Batches of several lengths: written, drawn, laid out, called, counted, kept."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from fake_peers import FakeFa3, FakeFlashInfer, arm_of, check_every_slot

from sparkctl.bench.arms import decode_arm, plan_case
from sparkctl.bench.axes import DecodeCase, Heads, drawn_keys, equal_case, parse_case, ragged_keys, with_equal_cases
from sparkctl.bench.buffers import WRONG_KEY, allocate_slots, plan_slot
from sparkctl.bench.lengths import Spread, draw_lengths, format_lengths, parse_lengths, parse_spread
from sparkctl.bench.record import case_record
from sparkctl.bench.saved import _parse_case
from sparkctl.bench.traffic import decode_traffic
from sparkctl.errors import UsageError
from sparkctl.runtime import Library
from sparkctl.workflows.bench_verify import verify_outputs

LENGTHS = (200, 1, 16, 75)
RAGGED = DecodeCase(4, 200, Heads(8, 2), 64, kv_lens=LENGTHS)
PAGED = replace(RAGGED, page_size=16)
DRAWN = parse_case("5 x 20-300, 8/2, d64, pages of 16, seed 3")[0]


@pytest.mark.parametrize("text", ["128", "128,1k,16k", "63*128,16k", "2*1k,1,2*1k"])
def test_lengths_print_as_they_are_written(text: str) -> None:
    assert format_lengths(parse_lengths(text), ",") == text


def test_neighbours_of_one_length_are_counted() -> None:
    assert parse_lengths("2*128, 1k") == (128, 128, 1024)
    assert format_lengths((7, 7, 7, 1024, 7)) == "3*7+1k+7"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is not a size"),
        ("128,,1k", "'' is not a size"),
        ("128,0", "'0' is less than 1"),
        ("0*128", "'0' is less than 1"),
        ("*128", "'' is not a size"),
        ("3*", "'' is not a size"),
        ("2*2*8", "'2*2' is not a size"),
        ("4g", "'4g' is not a size"),
        ("65536*1", "has more than 65535 lengths"),
        ("2m*1m", "has more than 65535 lengths"),
        ("3g,4096m", "'3g' is not a size"),
        ("4096m", "'4096m' is larger than 2147483647"),
    ],
)
def test_lengths_that_are_none_are_one_error(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_lengths(text)
    assert message in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("text", ["", "128", "-16k", "128-", "0-16k", "16k-128", "1-2-3", "a-b"])
def test_a_range_that_is_none_is_an_error_with_the_form(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_spread(text)
    assert caught.value.hint == "the shortest and the longest, as in 128-16k"


@pytest.mark.parametrize("batch", [1, 3, 16, 64, 200])
@pytest.mark.parametrize(("low", "high"), [(128, 16384), (1, 3), (100, 100), (1000, 1001)])
def test_drawn_lengths_keep_their_range_and_have_a_batch_of_one_length_beside_them(
    low: int, high: int, batch: int
) -> None:
    lengths = draw_lengths(Spread(low, high), batch)
    assert len(lengths) == batch
    assert low <= min(lengths) <= max(lengths) <= high
    assert sum(lengths) % batch == 0
    assert lengths == draw_lengths(Spread(low, high), batch)


def test_the_draw_is_spread_over_the_powers_of_two_and_follows_the_seed() -> None:
    lengths = draw_lengths(Spread(128, 16384), 700)
    per_octave = [sum(128 << i <= length < 256 << i for length in lengths) for i in range(7)]
    assert min(per_octave) > 70
    assert max(per_octave) < 130
    assert sum(lengths) // 700 % 16 == 0
    assert lengths != draw_lengths(Spread(128, 16384, 1), 700)


@pytest.mark.parametrize("case", [RAGGED, PAGED, DRAWN])
def test_a_label_reads_back_as_its_case_and_so_does_the_record(case: DecodeCase) -> None:
    assert parse_case(case.label)[0] == case
    assert _parse_case(json.loads(json.dumps(case_record(case)))) == case


def test_labels_say_the_lengths_or_what_they_were_drawn_from() -> None:
    assert PAGED.label == "4 × 200+1+16+75, 8/2, d64, bf16, pages of 16"
    assert DRAWN.label == "5 × 20-300, 8/2, d64, bf16, pages of 16, seed 3"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3 x 128+1k, 8/2, d64", "'128+1k' is 2 lengths, and the batch is 3"),
        ("3 x 1k, 8/2, d64, seed 1", "'1k' is not drawn"),
        ("3 x 16k-128, 8/2, d64", "128 is less than 16k"),
        ("3 x 128-1k, 8/2, d64, seed x", "'x' is not a size"),
    ],
)
def test_a_case_text_that_contradicts_itself_is_an_error(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_case(text)
    assert message in caught.value.message


def test_bytes_and_operations_are_those_of_the_actual_lengths() -> None:
    keys = sum(LENGTHS)
    traffic, paged = decode_traffic(RAGGED), decode_traffic(PAGED)
    assert traffic.kv_bytes == 2 * keys * 2 * 64 * 2
    assert traffic.flops == 4 * 8 * 64 * keys
    assert traffic.table_bytes == 4 * 4
    assert paged.table_bytes == 4 * (13 + 1 + 1 + 5 + 4)
    assert paged.kv_bytes == traffic.kv_bytes
    causal = decode_traffic(replace(RAGGED, qo_len=3, causal=True, kv_lens=(200, 3, 16, 75)))
    assert causal.flops == 4 * 8 * 64 * sum(3 * n - 3 for n in (200, 3, 16, 75))


def test_the_equal_case_moves_as_many_bytes_of_k_and_v() -> None:
    for case in (DRAWN, parse_case("64 x 128-16k, 32/8, d128")[0]):
        equal = equal_case(case)
        assert equal is not None
        assert (equal.batch, equal.page_size, equal.kv_lens) == (case.batch, case.page_size, None)
        assert decode_traffic(equal).kv_bytes == decode_traffic(case).kv_bytes
        assert with_equal_cases([case, case]) == (case, equal)
    assert equal_case(equal) is None


def test_the_ceiling_reads_as_many_bytes_as_the_case_moves() -> None:
    for case in (RAGGED, PAGED, DRAWN):
        layout = plan_slot(case)
        assert 0 <= layout.size - decode_traffic(case).bytes < 256
        assert layout.size <= layout.room


@pytest.mark.parametrize("case", [RAGGED, PAGED, DRAWN])
def test_every_key_is_a_number_of_the_case_and_all_else_is_far_away(case: DecodeCase) -> None:
    slots = allocate_slots(case, 2, device="cpu")
    used = case.total_keys * 2 * 64
    for pool in (*slots.k, *slots.v):
        assert not pool.isnan().any()
        assert int((pool != WRONG_KEY).sum()) == used
    for slot in range(2):
        assert slots.kv_lens[slot].tolist() == list(case.lengths)
        for keys in slots.keys(case, slot):
            for row, length in zip(keys, case.lengths, strict=True):
                assert not (row[:length] == WRONG_KEY).any()


def test_a_table_has_a_page_of_nothing_behind_the_last_of_a_sequence() -> None:
    slots = allocate_slots(PAGED, 2, device="cpu")
    table = slots.table[0]
    assert table.shape == (4, 13)
    own = [table[b, :count].tolist() for b, count in enumerate((13, 1, 1, 5))]
    flat = [page for pages in own for page in pages]
    assert len(set(flat)) == len(flat) == 20
    behind = set(table.flatten().tolist()) - set(flat)
    assert len(behind) == 1
    assert (slots.k[0][behind.pop()] == WRONG_KEY).all()
    assert table.tolist() != slots.table[1].tolist()


@pytest.mark.parametrize("case", [RAGGED, PAGED, DRAWN])
def test_the_entry_gets_the_lengths_and_reading_past_one_shows(library: Library, case: DecodeCase) -> None:
    slots = allocate_slots(case, 2, device="cpu")
    call = plan_case(library, case, variant=None, device_sm_count=132)
    out = decode_arm(case, slots, call).arm.call(1)
    (verdict,) = verify_outputs(case, slots.q[1], *slots.keys(case, 1), [out])
    assert verdict.worst <= 1.0
    slots.kv_lens[0][1] += 1
    out = decode_arm(case, slots, call).arm.call(0)
    (verdict,) = verify_outputs(case, slots.q[0], *slots.keys(case, 0), [out])
    assert verdict.worst > 100
    assert "sequence 1" in verdict.text


def test_splits_are_planned_for_the_longest(library: Library) -> None:
    long = DecodeCase(2, 16384, Heads(8, 2), 64, kv_lens=(16384, 128))
    plan, equal = (
        plan_case(library, case, variant=None, device_sm_count=132).plan for case in (long, replace(long, kv_lens=None))
    )
    assert plan.num_splits == equal.num_splits


@pytest.mark.parametrize("peer", ["sdpa", "sdpa-efficient", "flex"])
def test_what_takes_no_lengths_says_so(peer: str) -> None:
    from sparkctl.bench.peers import PEERS

    arms = PEERS[peer](RAGGED, allocate_slots(RAGGED, 1, device="cpu"))
    assert arms
    assert all(arm.reason is not None and "it takes no lengths" in arm.reason for arm in arms)


@pytest.mark.parametrize("case", [RAGGED, PAGED])
def test_fa3_gets_the_lengths(fa3: FakeFa3, case: DecodeCase) -> None:
    arm, slots = arm_of("fa3", "FA3", case)
    check_every_slot(arm, case, slots)
    _, options = fa3.calls[-1]
    assert options["cache_seqlens"] is slots.kv_lens[1]
    assert ("page_table" in options) == (case is PAGED)


@pytest.mark.parametrize("name", ["FlashInfer fa2", "FlashInfer CUDA", "FlashInfer XQA"])
@pytest.mark.parametrize("case", [RAGGED, PAGED])
def test_flashinfer_plans_for_the_lengths(flashinfer: FakeFlashInfer, name: str, case: DecodeCase) -> None:
    arm, slots = arm_of("flashinfer", name, case)
    check_every_slot(arm, case, slots)
    if name.endswith("XQA"):
        lens, most = flashinfer.xqa_calls[-1][3:5]
        assert (lens.view(torch.int32).tolist(), most) == (list(LENGTHS), 200)
        return
    page = 16 if case is PAGED else 64
    counts = [-(-n // page) for n in LENGTHS]
    wrapper = flashinfer.wrappers[-1]
    assert wrapper.indptr.tolist() == [sum(counts[:i]) for i in range(5)]
    assert wrapper.last.tolist() == [n % page or page for n in LENGTHS]
    assert wrapper.sizes[3] == page


def test_a_contiguous_cache_has_room_as_caches_have() -> None:
    assert (RAGGED.room, ragged_keys(LENGTHS).kv_len) == (256, 200)
    assert allocate_slots(RAGGED, 1, device="cpu").k[0].shape == (4, 256, 2, 64)
    assert drawn_keys(Spread(20, 300, 3), 5).kv_lens == DRAWN.kv_lens
