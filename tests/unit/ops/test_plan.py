"""Dispatch and split planning are pure functions of shapes and of what is built."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkctl.ops.plan import (
    GQA_LEAST_KV_LEN,
    DecodeShape,
    busy_ctas,
    choice_reason,
    choose_variant,
    family_of,
    kernel_order,
    normalise_splits,
    passes_for,
    plan_decode,
    plan_ragged_splits,
    plan_splits,
    serves,
    tile_size,
)
from sparkctl.runtime import BuiltVariant

ACCEPTS: dict[str, tuple[int, int | None]] = {"group": (1, 64), "qo_len": (1, 16), "kv_len": (0, None)}


def built(kernel: str, dtype: str = "bf16", head_dim: int = 128, *, smem: int = 0, **axes: int | str) -> BuiltVariant:
    values: dict[str, int | str] = {"dtype": dtype, "head_dim": head_dim, **axes}
    name = ".".join([kernel, *(str(v) for v in values.values())])
    return BuiltVariant(name, kernel, "decode", values, ACCEPTS, 128, smem, 0, 64, 4)


def mma(head_dim: int, kernel: str = "attn_decode_split_kv_mma") -> list[BuiltVariant]:
    return [
        built(kernel, head_dim=head_dim, smem=4 * s * kv * head_dim, stages=s, block_kv=kv, rows=rows)
        for s in (1, 2, 4)
        for kv in (32, 64, 128)
        for rows in (8, 16)
    ]


MMA = mma(128)
SCALAR = built("attn_decode_split_kv")
GQA = [
    built("fa_split_gqa", smem=512 * stages * tile, stages=stages, tile=tile, paged=0)
    for stages in (1, 2)
    for tile in (14, 32)
]


def shape(**changes: int | str) -> DecodeShape:
    values: dict[str, int | str] = {
        "batch": 1,
        "qo_len": 1,
        "num_qo_heads": 32,
        "num_kv_heads": 8,
        "head_dim": 128,
        "kv_len": 4096,
        "dtype": "bf16",
    }
    return DecodeShape(**{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(("head_dim", "stages"), [(64, 4), (96, 2), (128, 2), (192, 1), (256, 1)])
def test_tensor_cores_and_a_ring_of_64_kib_come_first(head_dim: int, stages: int) -> None:
    scalar = built("attn_decode_split_kv", head_dim=head_dim)
    chosen = choose_variant([scalar, *mma(head_dim)], shape(head_dim=head_dim))
    assert chosen is not None
    assert chosen.kernel == "attn_decode_split_kv_mma"
    assert (chosen.values["stages"], chosen.values["block_kv"], chosen.values["rows"]) == (stages, 64, 8)


@pytest.mark.parametrize(
    ("page_size", "batch", "kv_len", "tile"),
    [
        (None, 1, 1024, 64),
        (None, 1, 131072, 64),
        (None, 3, 16384, 64),
        (None, 4, 16384, 128),
        (None, 15, 1024, 128),
        (None, 16, 4096, 128),  # 128 CTAs without a split
        (None, 16, 4095, 32),
        (16, 1, 4096, 64),
        (16, 1, 8192, 64),
        (16, 1, 8193, 128),  # more than 64k keys of all heads
        (16, 8, 4096, 128),
        (16, 64, 1024, 32),
        (16, 64, 4096, 128),
    ],
)
def test_the_tile_follows_the_work(page_size: int | None, batch: int, kv_len: int, tile: int) -> None:
    operator = "decode" if page_size is None else "paged_decode"
    variants = mma(128, f"attn_{operator}_split_kv_mma")
    asked = shape(batch=batch, kv_len=kv_len, page_size=page_size)  # type: ignore[arg-type]
    chosen = choose_variant(variants, asked, family=operator)
    assert chosen is not None
    assert (chosen.values["block_kv"], chosen.values["stages"], chosen.values["rows"]) == (tile, 128 // tile, 8)


@pytest.mark.parametrize(("heads", "qo_len", "rows"), [(32, 1, 8), (64, 1, 8), (72, 1, 16), (32, 2, 8), (32, 4, 16)])
def test_the_fewest_passes_come_before_the_fewest_rows(heads: int, qo_len: int, rows: int) -> None:
    chosen = choose_variant(mma(128), shape(num_qo_heads=heads, qo_len=qo_len))
    assert chosen is not None
    assert chosen.values["rows"] == rows


def test_cuda_cores_are_chosen_where_no_tensor_core_variant_accepts_the_shape() -> None:
    scalar_64 = built("attn_decode_split_kv", head_dim=64)
    assert choose_variant([scalar_64, *MMA], shape(head_dim=64)) == scalar_64


@pytest.mark.parametrize(
    ("kv_heads", "kv_len", "kernel"),
    [
        (8, 4096, "fa_split_gqa"),
        (8, 1024, "fa_split_gqa"),
        (16, 1024, "fa_split_gqa"),  # group 2
        (8, 1023, "attn_decode_split_kv"),
        (32, 4096, "attn_decode_split_kv"),  # group 1
        (8, 0, "attn_decode_split_kv"),
    ],
)
def test_long_context_gqa_takes_fa_split_gqa_where_tensor_cores_do_not_serve(
    kv_heads: int, kv_len: int, kernel: str
) -> None:
    asked = shape(num_kv_heads=kv_heads, kv_len=kv_len)
    chosen = choose_variant([SCALAR, *GQA], asked)
    assert chosen is not None
    assert chosen.kernel == kernel
    with_tensor_cores = choose_variant([SCALAR, *GQA, *MMA], asked)
    assert with_tensor_cores is not None
    assert with_tensor_cores.kernel == "attn_decode_split_kv_mma"


def test_the_cuda_core_kernels_stand_in_for_each_other() -> None:
    assert choose_variant([SCALAR], shape()) == SCALAR
    left = choose_variant(GQA, shape(kv_len=10))
    assert left is not None
    assert left.kernel == "fa_split_gqa"


@given(group=st.integers(1, 64), kv_len=st.integers(0, 5000), operator=st.sampled_from(["decode", "paged_decode"]))
def test_the_order_holds_each_kernel_once_and_tensor_cores_first(group: int, kv_len: int, operator: str) -> None:
    order = kernel_order(operator, shape(num_qo_heads=group, num_kv_heads=1, kv_len=kv_len))
    assert order[0].endswith("_mma")
    assert len(set(order)) == len(order) == 3
    assert (order[1] == "fa_split_gqa") == (group >= 2 and kv_len >= GQA_LEAST_KV_LEN)


def test_of_fa_split_gqa_two_stages_and_the_small_tile_come_first() -> None:
    chosen = choose_variant(GQA, shape())
    assert chosen is not None
    assert (chosen.values["stages"], chosen.values["tile"], tile_size(chosen)) == (2, 14, 14)


def test_an_operator_runs_only_the_variants_over_its_kind_of_keys() -> None:
    contiguous, paged = (built("fa_split_gqa", stages=2, tile=14, paged=n) for n in (0, 1))
    assert [serves(contiguous, "decode"), serves(contiguous, "paged_decode")] == [True, False]
    assert [serves(paged, "decode"), serves(paged, "paged_decode")] == [False, True]
    assert choose_variant([contiguous, paged], shape(page_size=16), family="paged_decode") == paged
    assert [family_of(contiguous), family_of(paged)] == ["decode", "paged_decode"]


@pytest.mark.parametrize(
    ("chosen", "changes", "reason"),
    [
        (MMA[0], {}, ""),
        (
            built("fa_split_gqa", stages=2, tile=14, paged=0),
            {},
            "no built variant of attn_decode_split_kv_mma accepts the shape; "
            "group 4 over 4096 keys: the long-context GQA path",
        ),
        (
            SCALAR,
            {"num_kv_heads": 32},
            "no built variant of attn_decode_split_kv_mma accepts the shape; "
            "group 1 over 4096 keys: fa_split_gqa is for group 2 and 1024 keys and more",
        ),
        (SCALAR, {}, "no built variant of attn_decode_split_kv_mma, fa_split_gqa accepts the shape"),
        (
            built("fa_split_gqa", stages=2, tile=14, paged=0),
            {"kv_len": 5},
            "no built variant of attn_decode_split_kv_mma, attn_decode_split_kv accepts the shape; "
            "group 4 over 5 keys: the last that is left",
        ),
    ],
)
def test_a_plan_says_why_its_kernel_was_chosen(chosen: BuiltVariant, changes: dict[str, int], reason: str) -> None:
    assert choice_reason(chosen, shape(**changes), "decode") == reason


def test_reloaded_query_fragments_are_never_planned() -> None:
    resident, reload = (
        built("attn_decode_split_kv_mma", smem=65536, stages=2, block_kv=64, q_frag=q_frag)
        for q_frag in ("resident", "reload")
    )
    assert choose_variant([reload, resident], shape()) == resident
    assert choose_variant([reload, SCALAR], shape()) == SCALAR
    assert choose_variant([reload], shape(), kernel="attn_decode_split_kv_mma") is None


def test_a_forced_kernel_is_the_only_candidate() -> None:
    assert choose_variant([SCALAR, *MMA], shape(), kernel="attn_decode_split_kv") == SCALAR
    assert choose_variant(MMA, shape(), kernel="attn_decode_split_kv") is None


def test_no_variant_accepts_another_dtype_a_large_group_or_a_long_query() -> None:
    assert choose_variant(MMA, shape(dtype="fp16")) is None
    assert choose_variant(MMA, shape(num_qo_heads=65, num_kv_heads=1)) is None
    assert choose_variant(MMA, shape(qo_len=17)) is None


def test_passes_round_up_for_groups_that_do_not_fill_a_cta() -> None:
    eight, sixteen = (built("attn_decode_split_kv_mma", rows=rows) for rows in (8, 16))
    assert passes_for(eight, shape(num_qo_heads=40)) == 1  # 5 rows
    assert passes_for(eight, shape(num_qo_heads=24, qo_len=6)) == 3  # 18 rows
    assert passes_for(sixteen, shape(num_qo_heads=24, qo_len=6)) == 2
    assert passes_for(SCALAR, shape(num_qo_heads=56, qo_len=2)) == 2  # 14 rows


def test_work_that_fills_the_device_is_not_split() -> None:
    assert plan_splits(work=2112, tiles=256, slots=264) == 1


def test_one_sequence_is_split_over_the_device() -> None:
    assert plan_splits(work=8, tiles=64, slots=264) > 4


def test_short_sequences_are_split_too() -> None:
    assert plan_splits(work=1, tiles=16, slots=264) > 1


@given(work=st.integers(1, 5000), tiles=st.integers(0, 4096), slots=st.integers(1, 1000))
def test_splits_are_never_empty_and_never_more_than_tiles(work: int, tiles: int, slots: int) -> None:
    splits = plan_splits(work=work, tiles=tiles, slots=slots)
    assert 1 <= splits <= max(tiles, 1)
    if tiles:
        tiles_per_split = -(-tiles // splits)
        assert (splits - 1) * tiles_per_split < tiles  # the last split has a tile


@given(splits=st.integers(1, 500), tiles=st.integers(1, 500))
def test_normalising_keeps_the_tiles_per_split(splits: int, tiles: int) -> None:
    normal = normalise_splits(splits, tiles=tiles)
    assert -(-tiles // normal) == -(-tiles // min(splits, tiles))


def test_an_sm_takes_as_many_ctas_as_hold_64_kib_of_tiles() -> None:
    assert busy_ctas(built("attn_decode_split_kv_mma", smem=65536)) == 1
    assert busy_ctas(built("attn_decode_split_kv_mma", smem=131072)) == 1
    assert busy_ctas(built("attn_decode_split_kv_mma", smem=32768)) == 2
    assert busy_ctas(built("attn_decode_split_kv_mma", smem=8192)) == 4  # no more than fit
    assert busy_ctas(SCALAR) == 4


@pytest.mark.parametrize(
    ("work", "kv_len", "splits"),
    [
        (8, 1024, 16),
        (8, 4096, 16),
        (4, 4096, 16),
        (8, 16384, 16),
        (4, 16384, 32),
        (8, 131072, 16),
        (64, 4096, 2),
        (64, 16384, 2),
        (512, 1024, 1),
    ],
)
def test_the_planned_splits_are_the_best_of_the_h200_sweep(work: int, kv_len: int, splits: int) -> None:
    assert plan_splits(work=work, tiles=kv_len // 64, slots=132) == splits


@pytest.mark.parametrize(("work", "kv_len", "splits"), [(8, 16384, 16), (4, 16384, 16), (64, 4096, 2), (256, 16384, 1)])
def test_the_planned_splits_of_wide_tiles_are_the_best_of_the_h200_sweep(work: int, kv_len: int, splits: int) -> None:
    assert plan_splits(work=work, tiles=kv_len // 128, slots=132, tile=128) == splits


def test_a_ragged_batch_is_cut_so_that_its_longest_sequence_does_not_last() -> None:
    # 16 sequences of 128 to 16k keys, 8 kv heads: 128 CTAs fill the device, and the longest would run alone for long.
    work, tiles, slots = 128, 128, 132
    assert plan_splits(work=work, tiles=tiles, slots=slots, tile=128) == 1
    splits = plan_ragged_splits(work=work, tiles=tiles, total_tiles=26 * work, slots=slots, resident=396, tile=128)
    assert 4 <= splits <= 16


def test_lengths_near_each_other_are_cut_about_as_equal_ones() -> None:
    equal = plan_splits(work=8, tiles=128, slots=132)
    nearly = plan_ragged_splits(work=8, tiles=128, total_tiles=127 * 8, slots=132, resident=396)
    assert equal / 2 <= nearly <= 2 * equal


@given(st.integers(0, 600), st.integers(0, 2000), st.integers(1, 300), st.integers(1, 4))
def test_ragged_splits_are_never_empty_and_never_more_than_tiles(work: int, tiles: int, slots: int, held: int) -> None:
    splits = plan_ragged_splits(
        work=work, tiles=tiles, total_tiles=work * tiles / 3, slots=slots, resident=held * slots
    )
    assert 1 <= splits <= max(tiles, 1)
    assert tiles < 1 or -(-tiles // -(-tiles // splits)) == splits


def test_splits_follow_the_sum_of_lengths_only_where_it_says_more_than_the_longest() -> None:
    variant = next(v for v in MMA if v.values["block_kv"] == 128)
    long = {"batch": 16, "kv_len": 16384}

    def splits(**changes: int) -> int:
        return plan_decode(shape(**long, **changes), variant, "", sm_count=132).num_splits

    assert splits() == splits(total_kv_len=16 * 16384) == 1
    assert splits(total_kv_len=16 * 3350) > 1
    ragged = plan_decode(shape(**long, total_kv_len=16 * 3350), variant, "", sm_count=132)
    assert "at most 128 and on average 26.2 tiles" in ragged.reason


def test_a_plan_says_its_grid_and_keeps_given_splits() -> None:
    plan = plan_decode(shape(batch=3), MMA[3], "attn_combine.bf16.d128", sm_count=132, num_splits=7)
    assert plan.grid == (8, 7, 3)
    assert plan.num_splits == 7
    assert plan.reason == "num_splits as given"


def test_an_empty_cache_still_has_one_split() -> None:
    assert plan_decode(shape(kv_len=0), MMA[3], "attn_combine.bf16.d128", sm_count=132).num_splits == 1
