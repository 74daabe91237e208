"""The prefill operator on plain torch, its plan, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from sparkctl import ops
from sparkctl.ops.prefill_inputs import PrefillInputs, check_inputs
from sparkctl.ops.prefill_plan import PrefillShape, choose_prefill, plan_prefill
from sparkctl.runtime.manifest import BuiltVariant

INDPTR = (0, 5, 5, 12)


def rand(*size: int) -> torch.Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(sum(size))).to(torch.bfloat16)


def int32(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def dense(**changes: Any) -> dict[str, Any]:
    return {"q": rand(2, 9, 8, 64), "k": rand(2, 20, 2, 64), "v": rand(2, 20, 2, 64), **changes}


def ragged(**changes: Any) -> dict[str, Any]:
    values = {"q": rand(12, 8, 64), "k": rand(30, 2, 64), "v": rand(30, 2, 64)}
    return {**values, "qo_indptr": int32(*INDPTR), "kv_indptr": int32(0, 9, 9, 30), **changes}


def sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: Any) -> torch.Tensor:
    heads_first = [tensor.transpose(1, 2).float() for tensor in (q, k, v)]
    return torch.nn.functional.scaled_dot_product_attention(*heads_first, enable_gqa=True, **options).transpose(1, 2)


def test_cpu_tensors_get_plain_torch_and_match_sdpa() -> None:
    args = dense()
    below = torch.arange(20) <= torch.arange(9)[:, None] + 11  # bottom-right
    for causal, options in ((False, {}), (True, {"attn_mask": below})):
        out, lse = ops.prefill(**args, causal=causal, return_lse=True)
        torch.testing.assert_close(out.float(), sdpa(args["q"], args["k"], args["v"], **options), atol=2e-2, rtol=2e-2)
        assert lse.shape == (2, 9, 8)
    assert "torch" in ops.prefill(**args, explain=True)


def test_a_masked_call_matches_sdpa() -> None:
    args = dense()
    mask = torch.rand(2, 8, 9, 20, generator=torch.Generator().manual_seed(1)) < 0.7
    expected = sdpa(args["q"], args["k"], args["v"], attn_mask=mask)
    torch.testing.assert_close(ops.prefill(**args, mask=mask).float(), expected, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("options", [{"causal": True}, {"causal": True, "window": 3}, {"softcap": 2.0}])
def test_a_ragged_batch_is_its_sequences_one_by_one(options: dict[str, Any]) -> None:
    args = ragged()
    out, lse = ops.prefill(**args, return_lse=True, **options)
    assert lse.shape == (12, 8)
    for q, kv in (((0, 5), (0, 9)), ((5, 12), (9, 30))):
        one, one_lse = ops.prefill(
            args["q"][None, slice(*q)],
            args["k"][None, slice(*kv)],
            args["v"][None, slice(*kv)],
            return_lse=True,
            **options,
        )
        torch.testing.assert_close(out[slice(*q)], one[0])
        torch.testing.assert_close(lse[slice(*q)], one_lse[0])


def test_a_ragged_mask_counts_inside_its_sequence() -> None:
    args = ragged()
    mask = torch.rand(3, 8, 7, 25, generator=torch.Generator().manual_seed(2)) < 0.7
    out = ops.prefill(**args, mask=mask)
    last = ops.prefill(args["q"][None, 5:], args["k"][None, 9:], args["v"][None, 9:], mask=mask[2:, :, :, :21])
    torch.testing.assert_close(out[5:], last[0])


def test_pages_under_packed_queries_equal_gathered_keys() -> None:
    k, v = rand(7, 16, 2, 64), rand(7, 16, 2, 64)
    args = {"q": rand(12, 8, 64), "k": k, "v": v, "qo_indptr": int32(0, 5, 12), "causal": True}
    table = torch.tensor([[6, 1, 3], [2, 0, 1 << 30]], dtype=torch.int32)
    out = ops.prefill(**args, page_table=table, kv_lens=int32(40, 17))
    for q, pages, length in (((0, 5), [6, 1, 3], 40), ((5, 12), [2, 0], 17)):
        keys, values = (tensor[pages].flatten(0, 1)[None, :length] for tensor in (k, v))
        one = ops.prefill(args["q"][None, slice(*q)], keys, values, causal=True)
        torch.testing.assert_close(out[slice(*q)], one[0])


def test_rows_without_keys_are_zero_and_sinks_count() -> None:
    args = dense(k=rand(2, 3, 2, 64), v=rand(2, 3, 2, 64))
    out, lse = ops.prefill(**args, causal=True, return_lse=True)
    assert (out[:, :6] == 0).all()
    assert (lse[:, :6] == -torch.inf).all()
    sinks = torch.arange(8).float()
    out, lse = ops.prefill(**args, causal=True, return_lse=True, sinks=sinks)
    assert (out[:, :6] == 0).all()
    assert torch.equal(lse[:, :6], sinks.expand(2, 6, 8))


@pytest.mark.parametrize("longest", [7, 8, 10**6, 2**31, 2**70])
def test_a_max_qo_len_above_the_longest_sequence_costs_nothing(longest: int) -> None:
    args = ragged()
    shape = check_inputs(PrefillInputs(**args), longest, None)
    assert shape.qo_len == 7
    on_a_device = PrefillInputs(**{name: tensor.to("meta") for name, tensor in args.items()})
    assert check_inputs(on_a_device, longest, None).qo_len == min(longest, 12)
    assert torch.equal(ops.prefill(**args, max_qo_len=longest), ops.prefill(**args))


def test_a_mask_may_have_the_rows_of_max_qo_len() -> None:
    mask = torch.rand(3, 1, 10, 21, generator=torch.Generator().manual_seed(1)) > 0.3
    expected = ops.prefill(**ragged(mask=mask[:, :, :7]))
    assert torch.equal(ops.prefill(**ragged(mask=mask), max_qo_len=10), expected)
    with pytest.raises(ValueError, match=r"mask has shape \[3, 1, 10, 21\]"):
        ops.prefill(**ragged(mask=mask), max_qo_len=9)


def test_nothing_to_compute_gives_empty_results() -> None:
    for args in (dense(q=rand(2, 0, 8, 64)), ragged(q=rand(0, 8, 64), qo_indptr=int32(0, 0, 0, 0))):
        out, lse = ops.prefill(**args, return_lse=True)
        assert (out.shape, lse.shape) == (args["q"].shape, args["q"].shape[:-1])


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"qo_indptr": None}, ValueError, "q has shape [12, 8, 64], accepted is rank 4"),
        ({"q": rand(1, 12, 8, 64)}, ValueError, "accepted is rank 3 [total_qo, num_qo_heads, head_dim]"),
        ({"qo_indptr": torch.tensor(INDPTR)}, TypeError, "qo_indptr has dtype torch.int64"),
        ({"qo_indptr": int32(1, 5, 5, 12)}, ValueError, "qo_indptr goes from 1 to 12, accepted is from 0 to 12"),
        ({"qo_indptr": int32(0, 5, 5, 13)}, ValueError, "qo_indptr goes from 0 to 13, accepted is from 0 to 12"),
        ({"qo_indptr": int32(0, 7, 5, 12)}, ValueError, "accepted are values that do not fall"),
        ({"qo_indptr": int32(0, 5, 12)}, ValueError, "kv_indptr has shape [4], accepted is [3]"),
        ({"kv_indptr": int32(0, 9, 9, 29)}, ValueError, "kv_indptr goes from 0 to 29, accepted is from 0 to 30"),
        ({"kv_indptr": None}, ValueError, "k has shape [30, 2, 64], accepted is rank 4"),
        ({"kv_lens": int32(1, 1, 1)}, ValueError, "kv_indptr and kv_lens are given, accepted is one of them"),
        ({"max_qo_len": 6}, ValueError, "max_qo_len is 6, accepted is 7 or more"),
        ({"max_qo_len": 7.5}, TypeError, "max_qo_len is 7.5"),
        ({"k": rand(30, 3, 64)}, ValueError, "v has shape [30, 2, 64], accepted is [30, 3, 64]"),
        ({"mask": torch.ones(3, 8, 7, 20, dtype=torch.bool)}, ValueError, "mask has shape [3, 8, 7, 20]"),
        ({"window": -1}, ValueError, "window is -1"),
        ({"out": rand(12, 8, 32)}, ValueError, "out has shape [12, 8, 32]"),
        ({"sinks": torch.zeros(7)}, ValueError, "sinks has shape [7]"),
    ],
)
def test_a_bad_argument_of_a_ragged_call_is_named(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        ops.prefill(**ragged(**changes))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"max_qo_len": 8}, ValueError, "max_qo_len is 8, accepted is the length of q, 9, or None"),
        ({"k": rand(1, 20, 2, 64)}, ValueError, "k has shape [1, 20, 2, 64]"),
        ({"kv_lens": int32(21, 1)}, ValueError, "accepted is 0 to 20, the length of k"),
        ({"page_table": torch.zeros(2, 1, dtype=torch.int32)}, ValueError, "kv_lens is None, accepted with page_table"),
        ({"backend": "cuda"}, ValueError, "q is on cpu, which backend 'cuda' does not accept"),
        ({"backend": "torch", "kernel": "attn_prefill_split_q"}, ValueError, "backend is 'torch'"),
        ({"q": rand(2, 9, 7, 64)}, ValueError, "num_qo_heads is 7, accepted is a multiple of num_kv_heads (2)"),
    ],
)
def test_a_bad_argument_is_named_with_what_is_accepted(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        ops.prefill(**dense(**changes))
    assert message in str(caught.value)


def variant(name: str, kernel: str, **values: Any) -> BuiltVariant:
    accepts = {"group": (1, 64), "qo_len": (0, 1 << 24), "page_size": (1, 1 << 20)}
    return BuiltVariant(name, kernel, "prefill", values, accepts, 256, 0, None, None, None)


VARIANTS = [
    variant("eight", "attn_prefill_split_q", dtype="bf16", head_dim=64, lanes=8, paged=0),
    variant("four", "attn_prefill_split_q", dtype="bf16", head_dim=64, lanes=4, paged=0),
    variant("pages", "attn_prefill_split_q", dtype="bf16", head_dim=64, lanes=4, paged=1),
    variant("mma", "attn_prefill_split_q_mma", dtype="bf16", head_dim=64, paged=0),
]
SHAPE = PrefillShape(3, 100, 8, 2, 64, 100, "bf16")


def test_tensor_cores_come_first_and_pages_have_their_own_variants() -> None:
    paged = PrefillShape(3, 100, 8, 2, 64, 100, "bf16", page_size=16)
    chosen = [
        choose_prefill(VARIANTS, SHAPE),
        choose_prefill(VARIANTS, SHAPE, kernel="attn_prefill_split_q"),
        choose_prefill(VARIANTS, paged),
    ]
    assert [v.name for v in chosen if v] == ["mma", "four", "pages"]
    assert choose_prefill(VARIANTS, PrefillShape(3, 100, 130, 2, 64, 100, "bf16")) is None


@pytest.mark.parametrize(("index", "rows", "tiles"), [(0, 32, 13), (1, 64, 7), (3, 128, 4)])
def test_the_grid_has_a_tile_for_every_row_of_the_longest_sequence(index: int, rows: int, tiles: int) -> None:
    plan = plan_prefill(SHAPE, VARIANTS[index], "why")
    assert (plan.rows_per_cta, plan.grid) == (rows, (tiles, 2, 3))
    assert str(plan) == f"{VARIANTS[index].name}, grid {tiles} × 2 × 3, {rows} rows a CTA: why"
