"""Cases over pages: what a slot holds, what moves, what the entry point gets."""

import pytest
import torch

from sparkctl.bench.arms import decode_arm, plan_case
from sparkctl.bench.axes import DecodeCase, Heads, same_keys, span_cases
from sparkctl.bench.buffers import SPARE_PAGES, allocate_slots, count_slots, plan_slot
from sparkctl.bench.peers.sdpa import sdpa_arms
from sparkctl.bench.traffic import decode_traffic
from sparkctl.runtime import Library
from sparkctl.workflows.bench_verify import verify_outputs

CASE = DecodeCase(batch=2, kv_len=200, heads=Heads(8, 2), head_dim=64, page_size=16)  # 13 pages, the last half full


def test_the_table_and_the_lengths_are_part_of_what_moves() -> None:
    traffic, contiguous = decode_traffic(CASE), decode_traffic(DecodeCase(2, 200, Heads(8, 2), 64))
    assert traffic.table_bytes == 4 * 2 * (13 + 1)
    assert traffic.bytes == contiguous.bytes + traffic.table_bytes
    assert (traffic.kv_bytes, traffic.flops) == (contiguous.kv_bytes, contiguous.flops)
    assert decode_traffic(DecodeCase(1, 16384, Heads(32, 8), 128, page_size=1)).table_bytes == 4 * 16385


@pytest.mark.parametrize("page_size", [1, 16, 24, 64, 256])
def test_the_pool_has_more_pages_than_the_case_and_the_ceiling_reads_no_more_bytes_than_the_case(
    page_size: int,
) -> None:
    case = DecodeCase(4, 1000, Heads(8, 2), 64, page_size=page_size)
    layout = plan_slot(case)
    needed = 4 * -(-1000 // page_size)
    assert layout.num_pages == needed + max(1, needed // SPARE_PAGES)
    assert 0 <= layout.size - decode_traffic(case).bytes < 256
    assert layout.size <= layout.room
    assert layout.table % 256 == layout.q % 256 == layout.v % 256 == 0


def test_pages_are_shuffled_distinct_and_different_in_every_slot() -> None:
    slots = allocate_slots(CASE, 2, device="cpu")
    ids = [table.flatten().tolist() for table in slots.table]
    assert [table.shape for table in slots.table] == [(2, 13)] * 2
    assert slots.table[0].dtype == slots.kv_lens[0].dtype == torch.int32
    assert slots.kv_lens[0].tolist() == [200, 200]
    for one in ids:
        assert len(set(one)) == 26
        assert set(one) <= set(range(slots.layout.num_pages))
        assert one != sorted(one)
    assert ids[0] != ids[1]


def test_what_holds_no_key_of_the_case_is_nan_and_every_key_is_a_number() -> None:
    slots = allocate_slots(CASE, 1, device="cpu")
    k, v = slots.keys(CASE, 0)
    assert k.shape == v.shape == (2, 200, 2, 64)
    assert not k.isnan().any()
    assert not v.isnan().any()
    used = 2 * 200 * 2 * 64
    assert int((~slots.k[0].isnan()).sum()) == used
    assert int((~slots.v[0].isnan()).sum()) == used
    page = int(slots.table[0][1, 2])
    assert torch.equal(slots.k[0][page, 5], k[1, 2 * 16 + 5])


def test_a_cold_rotation_counts_the_table_too() -> None:
    wide = DecodeCase(8, 4096, Heads(1, 1), 32, page_size=1)  # 4 MiB of K and V, 128 KiB of table
    assert count_slots(wide, 600 << 20) < count_slots(DecodeCase(8, 4096, Heads(1, 1), 32), 600 << 20)


def test_the_paged_entry_gets_the_pool_the_table_and_the_lengths(library: Library) -> None:
    slots = allocate_slots(CASE, 2, device="cpu")
    call = plan_case(library, CASE, variant=None, device_sm_count=132)
    assert call.plan.variant.startswith("attn_paged_decode_split_kv_mma.bf16.d64")
    arm = decode_arm(CASE, slots, call)
    out = arm.arm.call(1)
    assert out is slots.out[1]
    (verdict,) = verify_outputs(CASE, slots.q[1], *slots.keys(CASE, 1), [out])
    assert verdict.worst <= 1.0


def test_sdpa_is_not_applicable_to_pages() -> None:
    arms = sdpa_arms(CASE, allocate_slots(CASE, 1, device="cpu"))
    assert [arm.name for arm in arms] == ["SDPA cuDNN", "SDPA flash"]
    assert all(arm.call is None and arm.reason == "not applicable, it takes no page table" for arm in arms)


def test_page_sizes_span_cases_and_labels_say_them() -> None:
    cases = span_cases(
        keys=same_keys((4096,), (1,)), heads=(Heads(32, 8),), head_dims=(128,), dtypes=("bf16",), page_sizes=(None, 16)
    )
    assert [case.operator for case in cases] == ["decode", "paged_decode"]
    assert [case.label for case in cases] == ["1 × 4k, 32/8, d128, bf16", "1 × 4k, 32/8, d128, bf16, pages of 16"]
