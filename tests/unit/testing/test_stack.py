"""The seeded stack: one position at a time gives what all at once gives, and a wrong attention shows in its answers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from sparkctl.testing.logits import score_logits
from sparkctl.testing.reference import attention_reference, plain_emulation
from sparkctl.testing.stack import AttentionStack, StackShape

SHAPE = StackShape(layers=3, hidden=96, head_dim=32, vocabulary=128, prompt=48, steps=24)
Tensor = torch.Tensor


def exact(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return attention_reference(q, k, v, causal=True)[0]


def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return plain_emulation(q, k, v, causal=True)


@pytest.fixture(scope="module")
def stack() -> AttentionStack:
    return AttentionStack(SHAPE, torch.bfloat16, "cpu")


@pytest.fixture(scope="module")
def reference(stack: AttentionStack) -> Tensor:
    return stack.prefill_logits(exact)


def decoded(stack: AttentionStack, attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Tensor:
    return stack.decode_logits(attend, stack.prompt_caches(exact))


def test_steps_give_what_all_positions_at_once_give(stack: AttentionStack, reference: Tensor) -> None:
    assert reference.shape == (2 * 72, 128)
    torch.testing.assert_close(decoded(stack, exact), stack.step_rows(reference), rtol=1e-9, atol=1e-9)


def test_a_seed_gives_the_same_model_and_another_one_another(reference: Tensor) -> None:
    again = AttentionStack(SHAPE, torch.bfloat16, "cpu").prefill_logits(exact)
    assert torch.equal(again, reference)
    assert not torch.equal(AttentionStack(SHAPE, torch.bfloat16, "cpu", seed=1).prefill_logits(exact), reference)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_what_the_dtype_alone_costs_passes(dtype: torch.dtype) -> None:
    stack = AttentionStack(SHAPE, dtype, "cpu")
    reference = stack.prefill_logits(exact)
    assert score_logits(stack.prefill_logits(plain), reference).passed
    score = score_logits(decoded(stack, plain), stack.step_rows(reference))
    assert score.passed
    assert 0 < score.kl_mean < 0.01


WRONG = {
    "the scale is a fifth too large": lambda q, k, v: plain_emulation(q, k, v, causal=True, scale=1.2 * 32**-0.5),
    "the last key is left out": lambda q, k, v: plain_emulation(q, k[:, :-1], v[:, :-1]),
    "the first key is left out": lambda q, k, v: plain_emulation(q, k[:, 1:], v[:, 1:]),
    "keys of the other kv head": lambda q, k, v: plain_emulation(q, k.flip(2), v.flip(2), causal=True),
    "nothing is written": lambda q, k, v: torch.zeros_like(q),
    "NaN is written": lambda q, k, v: torch.full_like(q, torch.nan),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_attention_fails(stack: AttentionStack, reference: Tensor, name: str) -> None:
    assert not score_logits(decoded(stack, WRONG[name]), stack.step_rows(reference)).passed


def test_no_steps_are_no_positions() -> None:
    stack = AttentionStack(
        StackShape(layers=1, hidden=32, head_dim=32, vocabulary=16, prompt=4, steps=0), torch.float16, "cpu"
    )
    assert decoded(stack, exact).shape == (0, 16)
