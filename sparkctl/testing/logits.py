"""What a change of attention does to a model's answers: top-1 agreement and KL divergence of logits, and their bars."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

TOP1_BAR = 0.90  # the share of positions whose most likely token stays the same, at least
KL_BAR = 0.20  # the mean over positions, in nats, at most


@dataclass(frozen=True, slots=True)
class LogitScore:
    """`kl_mean` and `kl_max` in nats, reference against judged; 0 positions is no score."""

    positions: int
    top1: float  # share of positions
    kl_mean: float
    kl_max: float

    @property
    def passed(self) -> bool:
        return self.positions > 0 and self.top1 >= TOP1_BAR and self.kl_mean <= KL_BAR


NOTHING_SCORED = LogitScore(0, 0.0, math.inf, math.inf)


def score_logits(logits: Tensor, reference: Tensor) -> LogitScore:
    """Both `[positions, vocabulary]`. A position whose logits are not all finite agrees with nothing.

    KL(p || q) = sum p (ln p - ln q), p the reference's distribution. ValueError for shapes that differ.
    """
    import torch

    if logits.shape != reference.shape or logits.dim() != 2:
        raise ValueError(f"logits have shape {list(logits.shape)}, accepted is {list(reference.shape)}, of rank 2")
    if logits.shape[0] == 0:
        return NOTHING_SCORED
    finite = logits.isfinite().all(-1)
    logits = torch.where(finite[:, None], logits.double(), 0.0)
    expected = torch.log_softmax(reference.double(), -1)
    got = torch.log_softmax(logits, -1)
    kl = torch.where(finite, (expected.exp() * (expected - got)).sum(-1).clamp(min=0), math.inf)
    same = finite & (logits.argmax(-1) == reference.argmax(-1))
    return LogitScore(len(kl), float(same.double().mean()), float(kl.mean()), float(kl.max()))
