"""Bytes, operations and floor times, against numbers worked out by hand."""

import pytest

from sparkctl.bench.axes import DecodeCase, Heads
from sparkctl.bench.estimate import estimate_decode
from sparkctl.bench.gpus import GPUS, find_gpu, match_gpu
from sparkctl.bench.traffic import bandwidth_tbps, decode_traffic, visible_pairs
from sparkctl.errors import UsageError

CASE = DecodeCase(batch=8, kv_len=16384, heads=Heads(32, 8), head_dim=128)


def test_each_kv_byte_counts_once_however_many_heads_share_it() -> None:
    shared, private = decode_traffic(CASE), decode_traffic(DecodeCase(8, 16384, Heads(8, 8), 128))
    assert shared.kv_bytes == private.kv_bytes == 536_870_912
    assert shared.bytes == 536_870_912 + 2 * (8 * 32 * 128 * 2)


def test_operations_count_both_products() -> None:
    assert decode_traffic(CASE).flops == 4 * 8 * 32 * 128 * 16384


def test_a_causal_mask_takes_away_the_keys_after_each_query() -> None:
    case = DecodeCase(1, 5, Heads(1, 1), 64, qo_len=3, causal=True)
    assert visible_pairs(case, 5) == 3 + 4 + 5
    assert visible_pairs(DecodeCase(1, 5, Heads(1, 1), 64, qo_len=3), 5) == 15
    assert visible_pairs(DecodeCase(1, 2, Heads(1, 1), 64, qo_len=4, causal=True), 2) == 0 + 0 + 1 + 2


def test_no_keys_are_no_operations_but_q_and_out_still_move() -> None:
    traffic = decode_traffic(DecodeCase(1, 0, Heads(4, 4), 64))
    assert (traffic.flops, traffic.kv_bytes, traffic.bytes) == (0, 0, 2 * 4 * 64 * 2)


def test_bandwidth_is_in_decimal_terabytes() -> None:
    assert bandwidth_tbps(537_000_000, 116.5) == pytest.approx(4.609, abs=1e-3)


def test_decode_is_bound_by_memory_on_a_data_centre_gpu() -> None:
    estimate = estimate_decode(CASE, find_gpu("H200"))
    assert estimate.bound == "memory"
    assert estimate.floor_us == pytest.approx(537.0e6 / 4.8e6, rel=1e-3)
    assert not estimate.fits_l2


def test_many_queries_over_few_keys_are_bound_by_the_tensor_cores() -> None:
    estimate = estimate_decode(DecodeCase(64, 4096, Heads(64, 1), 128, qo_len=16), find_gpu("L20"))
    assert estimate.bound == "compute"
    assert estimate.floor_us == estimate.compute_us > estimate.memory_us


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("H200", "H200"),
        ("h200", "H200"),
        ("NVIDIA H200", "H200"),
        ("rtx4090", "RTX 4090"),
        ("RTX 4090", "RTX 4090"),
        ("4090", "RTX 4090"),
        ("NVIDIA GeForce RTX 5090", "RTX 5090"),
        ("rtx-5090", "RTX 5090"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("a100", "A100"),
        ("NVIDIA L20", "L20"),
        ("B200", "B200"),
    ],
)
def test_a_gpu_is_found_however_it_is_spelled(text: str, name: str) -> None:
    assert find_gpu(text).name == name


@pytest.mark.parametrize("text", ["RTX 4090 D", "NVIDIA A100-PCIE-40GB", "RTX 5090 Laptop GPU", "L2", "H20", ""])
def test_a_sibling_is_not_taken_for_the_gpu_in_the_table(text: str) -> None:
    assert match_gpu(text) is None


def test_an_unknown_gpu_gets_a_near_name_and_the_list() -> None:
    with pytest.raises(UsageError, match="unknown GPU 'h2000'") as raised:
        find_gpu("h2000")
    assert raised.value.hint is not None
    assert "did you mean 'H200'?" in raised.value.hint
    assert all(gpu.name in raised.value.hint for gpu in GPUS)


def test_every_row_of_the_table_says_where_it_comes_from() -> None:
    assert all(gpu.source for gpu in GPUS)
