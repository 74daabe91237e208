"""The fp64 reference against a naive loop and against torch's own attention."""

import math

import pytest
import torch

from sparkctl.testing.reference import attention_reference, combine_reference, plain_emulation


def random_inputs(batch, qo_len, kv_len, num_kv_heads, group, head_dim=32, dtype=torch.bfloat16):
    generator = torch.Generator().manual_seed(7)
    q = torch.randn(batch, qo_len, num_kv_heads * group, head_dim, generator=generator).to(dtype)
    k, v = (torch.randn(batch, kv_len, num_kv_heads, head_dim, generator=generator).to(dtype) for _ in range(2))
    return q, k, v


def naive(q, k, v, kv_lens, causal=False, window=None, softcap=None, mask=None, sinks=None):
    """One row at a time, in Python's own arithmetic; mask [batch, heads, qo_len, kv_len]."""
    batch, qo_len, heads, head_dim = q.shape
    out = torch.zeros(q.shape, dtype=torch.float64)
    lse = torch.full((batch, qo_len, heads), -math.inf, dtype=torch.float64)
    for b in range(batch):
        for i in range(qo_len):
            for h in range(heads):
                kv_head = h // (heads // k.shape[2])
                own = kv_lens[b] - qo_len + i
                keys = [
                    j
                    for j in range(kv_lens[b])
                    if (not causal or j <= own)
                    and (window is None or own - j <= window)
                    and (mask is None or bool(mask[b, h, i, j]))
                ]
                row = q[b, i, h].tolist()
                scores = [
                    sum(x * y for x, y in zip(row, k[b, j, kv_head].tolist(), strict=True)) / math.sqrt(head_dim)
                    for j in keys
                ]
                if softcap is not None:
                    scores = [softcap * math.tanh(s / softcap) for s in scores]
                logits = scores + ([] if sinks is None else [float(sinks[h])])
                if not logits or max(logits) == -math.inf:
                    continue
                top = max(logits)
                total = math.fsum(math.exp(s - top) for s in logits)
                lse[b, i, h] = top + math.log(total)
                for d in range(head_dim):
                    out[b, i, h, d] = math.fsum(
                        math.exp(s - top) / total * float(v[b, j, kv_head, d])
                        for s, j in zip(scores, keys, strict=True)
                    )
    return out, lse


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("group", [1, 3])
def test_the_reference_equals_a_naive_loop_on_a_ragged_batch(causal, group):
    q, k, v = random_inputs(batch=4, qo_len=3, kv_len=9, num_kv_heads=2, group=group)
    lens = [9, 0, 1, 2]  # with a zero length, and rows that see no key under the causal mask
    for b, n in enumerate(lens):
        k[b, n:] = math.nan
        v[b, n:] = math.nan
    out, lse = attention_reference(q, k, v, kv_lens=torch.tensor(lens, dtype=torch.int32), causal=causal)
    expected_out, expected_lse = naive(q, k, v, lens, causal)
    torch.testing.assert_close(out, expected_out, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(lse, expected_lse, rtol=1e-12, atol=1e-13)


OPTIONS = {
    "window of one": {"window": 0},
    "window": {"window": 2},
    "window and causal": {"window": 3, "causal": True},
    "softcap": {"softcap": 0.7},
    "mask": {"mask": "rank4"},
    "sinks": {"sinks": True},
    "sinks over rows without keys": {"sinks": True, "causal": True},
    "all": {"window": 4, "causal": True, "softcap": 1.3, "mask": "rank4", "sinks": True},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_the_options_equal_a_naive_loop(name):
    q, k, v = random_inputs(batch=4, qo_len=3, kv_len=9, num_kv_heads=2, group=2)
    lens = [9, 0, 2, 6]
    for b, n in enumerate(lens):
        k[b, n:] = math.nan
        v[b, n:] = math.nan
    options = dict(OPTIONS[name])
    generator = torch.Generator().manual_seed(2)
    if "mask" in options:
        options["mask"] = torch.rand(4, 4, 3, 9, generator=generator) < 0.6
        options["mask"][0, 1, 2] = False
    if "sinks" in options:
        options["sinks"] = torch.tensor([0.5, -math.inf, 9.0, -2.0])
    out, lse = attention_reference(q, k, v, kv_lens=torch.tensor(lens, dtype=torch.int32), **options)
    expected_out, expected_lse = naive(q, k, v, lens, **options)
    torch.testing.assert_close(out, expected_out, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(lse, expected_lse, rtol=1e-12, atol=1e-13)
    plain = plain_emulation(q, k, v, kv_lens=torch.tensor(lens, dtype=torch.int32), **options)
    torch.testing.assert_close(plain.double(), expected_out, rtol=0.02, atol=0.02)


def test_a_mask_of_lower_rank_is_the_same_mask_broadcast():
    q, k, v = random_inputs(batch=2, qo_len=3, kv_len=7, num_kv_heads=2, group=2)
    generator = torch.Generator().manual_seed(4)
    for shape, rank4 in (
        ((3, 7), (1, 1, 3, 7)),
        ((2, 3, 7), (2, 1, 3, 7)),
        ((2, 1, 7), (2, 1, 1, 7)),
        ((2, 4, 1, 7), (2, 4, 1, 7)),
        ((2, 1, 3, 7), (2, 1, 3, 7)),
    ):
        mask = torch.rand(shape, generator=generator) < 0.6
        whole = mask.reshape(rank4).expand(2, 4, 3, 7)
        out, lse = attention_reference(q, k, v, mask=mask)
        expected_out, expected_lse = naive(q, k, v, [7, 7], mask=whole)
        torch.testing.assert_close(out, expected_out, rtol=1e-12, atol=1e-13)
        torch.testing.assert_close(lse, expected_lse, rtol=1e-12, atol=1e-13)


def test_a_key_that_no_query_sees_may_hold_nan():
    q, k, v = random_inputs(batch=1, qo_len=2, kv_len=9, num_kv_heads=1, group=2)
    clean = attention_reference(q, k, v, window=3)
    for tensor in (k, v):
        tensor[:, :4] = math.nan  # query 0 stands at 7 and sees the keys from 4 on
    torch.testing.assert_close(attention_reference(q, k, v, window=3), clean, rtol=0, atol=0)
    assert plain_emulation(q, k, v, window=3).isfinite().all()


def test_the_reference_equals_torch_attention():
    q, k, v = random_inputs(batch=2, qo_len=4, kv_len=50, num_kv_heads=2, group=4)
    mask = torch.ones(4, 50, dtype=torch.bool).tril(diagonal=46)  # bottom-right
    expected = torch.nn.functional.scaled_dot_product_attention(
        q.double().transpose(1, 2),
        k.double().transpose(1, 2),
        v.double().transpose(1, 2),
        attn_mask=mask,
        enable_gqa=True,
    )
    out, _ = attention_reference(q, k, v, causal=True)
    torch.testing.assert_close(out, expected.transpose(1, 2))


def test_causal_with_one_query_hides_no_key():
    q, k, v = random_inputs(batch=1, qo_len=1, kv_len=5, num_kv_heads=1, group=1)
    torch.testing.assert_close(attention_reference(q, k, v, causal=True), attention_reference(q, k, v), rtol=0, atol=0)


@pytest.mark.parametrize("capacity", [0, 4])
def test_no_keys_give_zero_and_minus_infinity(capacity):
    q, k, v = random_inputs(batch=1, qo_len=2, kv_len=capacity, num_kv_heads=1, group=2)
    lens = torch.zeros(1, dtype=torch.int32) if capacity else None
    out, lse = attention_reference(q, k, v, kv_lens=lens)
    assert out.eq(0).all() and lse.eq(-math.inf).all()
    assert plain_emulation(q, k, v, kv_lens=lens).eq(0).all()


def test_the_plain_emulation_errs_like_its_dtype():
    for dtype, low, high in ((torch.bfloat16, 1e-4, 5e-3), (torch.float16, 1e-5, 1e-3)):
        q, k, v = random_inputs(batch=2, qo_len=2, kv_len=200, num_kv_heads=2, group=4, dtype=dtype)
        plain = plain_emulation(q, k, v)
        out, _ = attention_reference(q, k, v)
        assert plain.dtype is dtype
        assert low < (plain.double() - out).norm() / out.norm() < high


def test_combining_the_splits_of_a_softmax_gives_the_softmax():
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn(2, 1, 3, 24, generator=generator, dtype=torch.float64)
    values = torch.randn(2, 1, 3, 24, 16, generator=generator, dtype=torch.float64)
    split = scores.view(2, 1, 3, 4, 6) / math.log(2)
    part_max = split.amax(-1)
    weights = torch.exp2(split - part_max[..., None])
    part_acc = torch.einsum("bqhsk,bqhskd->bqhsd", weights, values.view(2, 1, 3, 4, 6, 16))
    out, lse = combine_reference(part_acc, part_max, weights.sum(-1))
    torch.testing.assert_close(out, torch.einsum("bqhk,bqhkd->bqhd", scores.softmax(-1), values))
    torch.testing.assert_close(lse, scores.logsumexp(-1))


def test_an_empty_split_weighs_nothing_whatever_its_accumulator_holds():
    part_max = torch.tensor([[-math.inf, 2.0], [-math.inf, -math.inf]])
    part_sum = torch.tensor([[0.0, 4.0], [0.0, 0.0]])
    part_acc = torch.tensor([[[math.nan], [6.0]], [[math.nan], [math.nan]]])
    out, lse = combine_reference(part_acc, part_max, part_sum)
    assert out.flatten().tolist() == [1.5, 0.0]
    assert lse.tolist() == [pytest.approx(2 * math.log(2) + math.log(4)), -math.inf]


def test_a_sink_is_one_more_split_of_one_key_without_a_value():
    generator = torch.Generator().manual_seed(5)
    part_max = torch.randn(2, 3, 4, 5, generator=generator)
    part_sum = 1 + torch.rand(2, 3, 4, 5, generator=generator)
    part_acc = torch.randn(2, 3, 4, 5, 8, generator=generator)
    part_sum[0, 0] = 0.0  # rows that saw nothing
    sinks = torch.tensor([0.3, -math.inf, 12.0, -4.0], dtype=torch.float64)
    extra = (sinks / math.log(2))[:, None].expand(2, 3, 4, 1)
    wider = (
        torch.cat((part_acc, torch.zeros(2, 3, 4, 1, 8)), -2),
        torch.cat((part_max, extra), -1),
        torch.cat((part_sum, (extra > -math.inf).double()), -1),
    )
    expected_out, expected_lse = combine_reference(*wider)
    out, lse = combine_reference(part_acc, part_max, part_sum, sinks)
    torch.testing.assert_close(out, expected_out)
    torch.testing.assert_close(lse, expected_lse)
    assert lse[0, 0].tolist() == [pytest.approx(0.3), -math.inf, pytest.approx(12.0), pytest.approx(-4.0)]
