"""The Hugging Face adapter on plain torch, against transformers' own attention, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from sparkctl.errors import MissingTool
from sparkctl.ops import PagedCache, huggingface


class Module(torch.nn.Module):
    is_causal = True
    num_key_value_groups = 4
    layer_idx = 0


MODULE = Module()


def inputs(qo_len: int, kv_len: int, batch: int = 2) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(qo_len * 1000 + kv_len)

    def rand(heads: int, length: int) -> torch.Tensor:
        return torch.randn(batch, heads, length, 32, generator=generator).bfloat16()

    return rand(8, qo_len), rand(2, kv_len), rand(2, kv_len)


def ours(*args: Any, **options: Any) -> torch.Tensor:
    out, weights = huggingface.attention(MODULE, *args, **{"scaling": 0.2, **options})
    assert weights is None
    return out.float()


def theirs(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Any, **options: Any) -> torch.Tensor:
    wide = (tensor.float() for tensor in (query, key, value))
    return sdpa_attention_forward(MODULE, *wide, mask, **{"scaling": 0.2, **options})[0]


def near(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, atol=2e-2, rtol=2e-2)


def padded(qo_len: int, kv_len: int, batch: int = 2, **options: Any) -> torch.Tensor:
    """transformers' mask of a batch whose second sequence starts three keys late."""
    padding = torch.ones(batch, kv_len, dtype=torch.bool)
    padding[1:, :3] = False
    options = {"q_offset": kv_len - qo_len, "attention_mask": padding, "allow_is_causal_skip": False, **options}
    mask = sdpa_mask(batch, qo_len, kv_len, **options)
    assert mask is not None
    return mask


@pytest.mark.parametrize(("qo_len", "kv_len"), [(1, 40), (5, 5), (16, 16), (17, 17), (40, 40)])
def test_without_a_mask_it_is_causal_attention(qo_len: int, kv_len: int) -> None:
    args = inputs(qo_len, kv_len)
    near(ours(*args, None), theirs(*args, None))
    near(ours(*args, None, is_causal=False), theirs(*args, None, is_causal=False))


@pytest.mark.parametrize(("qo_len", "kv_len"), [(1, 40), (5, 40), (20, 20), (20, 40)])
def test_a_mask_says_everything(qo_len: int, kv_len: int) -> None:
    args, mask = inputs(qo_len, kv_len), padded(qo_len, kv_len)
    expected = theirs(*args, mask)
    seen = mask.any(-1).transpose(1, 2)[..., None]  # rows without keys are zero here and an average there
    near(ours(*args, mask) * seen, expected * seen)
    for hidden in (torch.finfo(torch.bfloat16).min, -torch.inf):
        additive = torch.zeros(mask.shape).bfloat16().masked_fill(~mask, hidden)
        assert torch.equal(ours(*args, additive), ours(*args, mask))
    wider = torch.cat((mask, torch.ones(2, 1, qo_len, 7, dtype=torch.bool)), -1)
    assert torch.equal(ours(*args, wider, sliding_window=3), ours(*args, mask))  # the window is in the mask already
    assert torch.equal(ours(*args, mask[1:])[1:], ours(*args, mask)[1:])


def test_a_window_counts_the_querys_own_key() -> None:
    for qo_len, kv_len in ((1, 40), (20, 20)):
        args = inputs(qo_len, kv_len)
        positions = torch.arange(kv_len - qo_len, kv_len)[:, None] - torch.arange(kv_len)
        mask = ((positions >= 0) & (positions < 7)).expand(2, 1, qo_len, kv_len)
        near(ours(*args, None, sliding_window=7), theirs(*args, mask))


def test_softcap_and_sinks_are_those_of_eager_attention() -> None:
    for qo_len in (1, 20):
        query, key, value = inputs(qo_len, 20)
        sinks = torch.linspace(-2, 3, 8).bfloat16()
        scores = query.float() @ key.float().repeat_interleave(4, 1).transpose(2, 3) * 0.2
        scores = 3 * torch.tanh(scores / 3)
        hidden = torch.arange(20) > torch.arange(20 - qo_len, 20)[:, None]
        scores = scores.masked_fill(hidden, -torch.inf)
        logits = torch.cat((scores, sinks.float().view(1, 8, 1, 1).expand(2, 8, qo_len, 1)), -1)
        expected = logits.softmax(-1)[..., :-1] @ value.float().repeat_interleave(4, 1)
        for name in ("s_aux", "sinks"):
            near(ours(query, key, value, None, softcap=3.0, **{name: sinks}), expected.transpose(1, 2))


def test_the_prompt_in_an_empty_static_cache_sees_its_own_keys_alone() -> None:
    query, key, value = inputs(20, 32)
    key[:, :, 20:], value[:, :, 20:] = float("nan"), float("nan")
    near(ours(query, key, value, None), theirs(query, key[:, :, :20], value[:, :, :20], None))


def test_keys_may_lie_in_pages() -> None:
    pages = PagedCache(num_layers=1, batch=2, max_kv_len=64, num_kv_heads=2, head_dim=32, page_size=8)
    query, key, value = inputs(40, 40)
    for begin, end in ((0, 20), (20, 37), (37, 38), (38, 40)):
        part = slice(begin, end)
        pages.extend(end - begin)
        assert pages.positions.tolist() == [list(range(begin, end))] * 2
        out = ours(query[:, :, part], key[:, :, part], value[:, :, part], None, pages=pages)
        near(out, theirs(query, key, value, None)[:, part])
    assert len(set(pages.page_table[:, :5].flatten().tolist())) == 10
    with pytest.raises(ValueError, match="count is 25, accepted is 1 to 24, the room that is left"):
        pages.extend(25)


@pytest.mark.parametrize(
    ("mask", "options", "message"),
    [
        (None, {"dropout": 0.1}, "dropout is 0.1, accepted is 0"),
        (None, {"position_bias": torch.zeros(1)}, "position_bias is given"),
        (None, {"output_attentions": True}, "output_attentions is given"),
        (None, {"cu_seq_lens_q": torch.zeros(3)}, "cu_seq_lens_q is given without a mask"),
        (torch.full((2, 1, 1, 40), 0.5), {}, "attention_mask holds a bias, accepted are 0"),
        (torch.full((2, 1, 1, 40), float("nan")), {}, "attention_mask holds a bias"),
        (torch.zeros(2, 1, 1, 40).int(), {}, "attention_mask has dtype torch.int32"),
        (torch.ones(2, 1, 1, 39).bool(), {}, "attention_mask has shape [2, 1, 1, 39]"),
        (torch.ones(2, 40).bool(), {}, "attention_mask has shape [2, 40]"),
    ],
)
def test_what_cannot_be_expressed_is_refused(mask: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        ours(*inputs(1, 40), mask, **options)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"sliding_window": 0}, ValueError, "sliding_window is 0, accepted is 1 or more, or None for no window"),
        ({"sliding_window": -1}, ValueError, "sliding_window is -1, accepted is 1 or more, or None for no window"),
        ({"sliding_window": True}, TypeError, "sliding_window is True, accepted is a whole number or None"),
        ({"sliding_window": 2.0}, TypeError, "sliding_window is 2.0, accepted is a whole number or None"),
        ({"is_causal": 1}, TypeError, "is_causal is 1, accepted are True and False"),
        ({"s_aux": [0.0] * 8}, TypeError, "s_aux is list, accepted is torch.Tensor"),
        ({"sinks": [0.0] * 8}, TypeError, "sinks is list, accepted is torch.Tensor"),
        ({"pages": "x"}, TypeError, "pages is str, accepted is sparkctl.ops.PagedCache, or None"),
        ({"query": None}, TypeError, "query is NoneType, accepted is torch.Tensor"),
        ({"key": torch.zeros(2, 2, 40)}, ValueError, "key has shape [2, 2, 40], accepted is rank 4 [batch, heads,"),
        ({"attention_mask": np.ones((2, 1, 1, 40))}, TypeError, "attention_mask is ndarray, accepted is torch.Tensor"),
        ({"attention_mask": {}}, TypeError, "attention_mask is dict, accepted is torch.Tensor"),
    ],
)
def test_a_wrong_argument_is_named(options: dict[str, Any], error: type[Exception], message: str) -> None:
    query, key, value = inputs(1, 40)
    arguments = {"query": query, "key": key, "value": value, "attention_mask": None, "scaling": 0.2, **options}
    with pytest.raises(error) as caught:
        huggingface.attention(MODULE, **arguments)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("layer", [None, 1, True, "0"])
def test_pages_are_for_layers_that_they_have(layer: Any) -> None:
    pages = PagedCache(num_layers=1, batch=2, max_kv_len=64, num_kv_heads=2, head_dim=32)
    pages.extend(40)
    module = Module()
    module.layer_idx = layer
    with pytest.raises(
        (TypeError, ValueError), match="module has no layer_idx" if layer is None else f"layer is {layer!r}"
    ):
        huggingface.attention(module, *inputs(1, 40), None, pages=pages)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"name": ""}, ValueError, "name is '', accepted is a name for attn_implementation"),
        ({"name": 5}, ValueError, "name is 5, accepted is a name for attn_implementation"),
        ({"backend": "zz"}, ValueError, "backend is 'zz', accepted are auto, cuda, emulator, torch"),
        ({"pages": "x"}, TypeError, "pages is str, accepted is sparkctl.ops.PagedCache, or None"),
    ],
)
def test_what_cannot_be_registered_is_refused(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        huggingface.register(**arguments)
    assert str(caught.value) == message


def test_registering_gives_transformers_the_function_and_its_masks() -> None:
    huggingface.register("sparkctl_test")
    assert AttentionMaskInterface()["sparkctl_test"] is sdpa_mask
    args = inputs(3, 3)
    out, _ = AttentionInterface()["sparkctl_test"](MODULE, *args, None, scaling=0.2)
    assert torch.equal(out.float(), ours(*args, None))


def test_without_transformers_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingTool, match=r"transformers cannot be imported.*pip install 'transformers>=5'"):
        huggingface.register("sparkctl_test")


def test_the_adapter_imports_neither_torch_nor_transformers_by_itself() -> None:
    code = "import sys, sparkctl.ops.huggingface; assert not {'torch', 'transformers'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
