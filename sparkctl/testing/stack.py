"""A seeded stack of attention layers under an LM head: how an attention's errors grow into a model's answers.

Everything but attention is computed in fp64, so that two runs differ by their attentions alone. Scores are sharp and
the residual is weak: what a layer attends to decides the logits, and a wrong key or scale changes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor

QUERY_GAIN = 3.0  # the standard deviation of scores, about
RESIDUAL = 0.5  # of a layer's input beside its attention's output
LOGIT_GAIN = 3.0  # the standard deviation of logits

# q [batch, qo_len, heads, head_dim], k and v [batch, kv_len, kv heads, head_dim], of the stack's dtype; bottom-right
# causal -> out shaped as q.
Attend = Callable[["Tensor", "Tensor", "Tensor"], "Tensor"]
Caches = list[tuple["Tensor", "Tensor"]]  # k and v of each layer


@dataclass(frozen=True, slots=True)
class StackShape:
    """The sizes; `positions` of a sequence are its prompt and the steps after it."""

    layers: int = 4
    hidden: int = 256
    num_qo_heads: int = 8
    num_kv_heads: int = 2
    head_dim: int = 128
    vocabulary: int = 512
    batch: int = 2
    prompt: int = 192
    steps: int = 48


@dataclass(frozen=True, slots=True)
class Layer:
    """Weights [in, out], fp64."""

    q: Tensor
    k: Tensor
    v: Tensor
    out: Tensor


class AttentionStack:
    """The weights and token ids that a seed gives, on one device."""

    def __init__(self, shape: StackShape, dtype: torch.dtype, device: str, seed: int = 0) -> None:
        import torch

        generator = torch.Generator().manual_seed(seed)
        self.shape, self.dtype = shape, dtype

        def weight(rows: int, columns: int, gain: float = 1.0) -> Tensor:
            values = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
            scaled: Tensor = values * (gain / rows**0.5)
            return scaled.to(device)

        q_width, kv_width = shape.num_qo_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
        self.layers = tuple(
            Layer(
                weight(shape.hidden, q_width, QUERY_GAIN),
                weight(shape.hidden, kv_width),
                weight(shape.hidden, kv_width),
                weight(q_width, shape.hidden),
            )
            for _ in range(shape.layers)
        )
        self.embedding = weight(shape.vocabulary, shape.hidden, shape.vocabulary**0.5)
        self.head = weight(shape.hidden, shape.vocabulary, LOGIT_GAIN)
        size = (shape.batch, shape.prompt + shape.steps)
        self.tokens = torch.randint(shape.vocabulary, size, generator=generator).to(device)

    def prefill_logits(self, attend: Attend) -> Tensor:
        """Logits of every position `[batch * positions, vocabulary]`, all in one call a layer."""
        logits, _ = self._run(self.tokens, self._empty_caches(), attend)
        return logits.flatten(0, 1)

    def prompt_caches(self, attend: Attend) -> Caches:
        """Each layer's keys and values of the prompt, as `attend` leads to them."""
        return self._run(self.tokens[:, : self.shape.prompt], self._empty_caches(), attend)[1]

    def decode_logits(self, attend: Attend, caches: Caches) -> Tensor:
        """Logits of the steps `[batch * steps, vocabulary]`, one position a call, behind the prompt's `caches`."""
        import torch

        start = self.shape.prompt
        steps = []
        for position in range(start, start + self.shape.steps):
            logits, caches = self._run(self.tokens[:, position : position + 1], caches, attend)
            steps.append(logits)
        return torch.cat(steps, 1).flatten(0, 1) if steps else self.head.new_zeros(0, self.shape.vocabulary)

    def step_rows(self, logits: Tensor) -> Tensor:
        """Of prefill_logits' rows those of the steps."""
        shape = self.shape
        rows = logits.view(shape.batch, shape.prompt + shape.steps, -1)
        return rows[:, shape.prompt :].flatten(0, 1)

    def _empty_caches(self) -> Caches:
        shape = self.shape
        empty = self.head.new_zeros(shape.batch, 0, shape.num_kv_heads, shape.head_dim).to(self.dtype)
        return [(empty, empty)] * shape.layers

    def _run(self, tokens: Tensor, caches: Caches, attend: Attend) -> tuple[Tensor, Caches]:
        import torch

        x = self.embedding[tokens]
        grown = []
        for layer, (k_cache, v_cache) in zip(self.layers, caches, strict=True):
            into = normalized(x)
            q, k, v = (self._heads(into @ weight) for weight in (layer.q, layer.k, layer.v))
            k, v = torch.cat((k_cache, k), 1), torch.cat((v_cache, v), 1)
            grown.append((k, v))
            x = RESIDUAL * into + normalized(attend(q, k, v).double().flatten(-2) @ layer.out)
        return normalized(x) @ self.head, grown

    def _heads(self, x: Tensor) -> Tensor:
        """[batch, positions, heads * head_dim] -> [batch, positions, heads, head_dim], rounded to the dtype."""
        heads: Tensor = x.reshape(*x.shape[:-1], -1, self.shape.head_dim)
        return heads.to(self.dtype)


def normalized(x: Tensor) -> Tensor:
    """Root mean square 1 along the last axis; zeros stay."""
    import torch

    size = x.square().mean(-1, keepdim=True).sqrt()
    return x / torch.where(size == 0, 1.0, size)
