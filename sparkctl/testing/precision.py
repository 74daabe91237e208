"""How far an attention lies from fp64 over a few shapes, beside what a plain implementation of the dtype gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkctl.testing.compare import absolute_error, compare_outputs
from sparkctl.testing.reference import attention_reference, plain_emulation

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """Causal, bottom-right. Sequences of different lengths are padded to the longest with NaN."""

    kv_lens: tuple[int, ...]
    qo_len: int = 1


@dataclass(frozen=True, slots=True)
class Precision:
    """Over all shapes. `of_allowed` is the tolerance rule's share: above 1 an output is wrong (docs/testing.md)."""

    relative_l2: float
    largest: float  # absolute error
    of_allowed: float

    @property
    def passed(self) -> bool:
        return self.of_allowed <= 1


@dataclass(frozen=True, slots=True)
class Problem:
    """One shape's inputs and the two outputs that judge others."""

    q: Tensor
    k: Tensor
    v: Tensor
    kv_lens: Tensor
    exact: Tensor
    plain: Tensor


# (q, k, v, kv_lens) -> out
Attention = Callable[["Tensor", "Tensor", "Tensor", "Tensor"], "Tensor"]


def make_problem(
    shape: AttentionShape, heads: tuple[int, int], head_dim: int, dtype: torch.dtype, device: str, seed: int
) -> Problem:
    """Normal random inputs; `heads` are query heads and kv heads."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    batch, kv_len = len(shape.kv_lens), max(shape.kv_lens)

    def random(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator).to(device=device, dtype=dtype)

    q = random(batch, shape.qo_len, heads[0], head_dim)
    k, v = (random(batch, kv_len, heads[1], head_dim) for _ in range(2))
    for row, length in enumerate(shape.kv_lens):
        k[row, length:] = v[row, length:] = float("nan")
    kv_lens = torch.tensor(shape.kv_lens, dtype=torch.int32, device=device)
    exact, _ = attention_reference(q, k, v, kv_lens=kv_lens, causal=True)
    return Problem(q, k, v, kv_lens, exact, plain_emulation(q, k, v, kv_lens=kv_lens, causal=True))


def run_problems(problems: Sequence[Problem], attention: Attention) -> list[Tensor]:
    """The outputs, in order."""
    return [attention(p.q, p.k, p.v, p.kv_lens) for p in problems]


def judge_outputs(problems: Sequence[Problem], outputs: Sequence[Tensor], dtype: str) -> Precision:
    """Over all problems together."""
    squares, energy, largest, share = 0.0, 0.0, 0.0, 0.0
    for problem, out in zip(problems, outputs, strict=True):
        error = absolute_error(out, problem.exact)
        squares += float(error.square().sum())
        energy += float(problem.exact.square().sum())
        largest = max(largest, float(error.max()))
        compared = compare_outputs(
            out,
            None,
            expected_out=problem.exact,
            expected_lse=problem.exact[..., 0],
            plain_out=problem.plain,
            dtype=dtype,
        )
        share = max(share, compared.worst)
    return Precision((squares / energy) ** 0.5, largest, share)
