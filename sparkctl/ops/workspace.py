"""The partial results that a split-KV call needs room for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkctl.ops import checks

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Workspace:
    """Un-normalised partials, contiguous fp32; num_splits is the last size of `part_max`."""

    part_acc: torch.Tensor  # [batch, qo_len, num_qo_heads, num_splits, head_dim]
    part_max: torch.Tensor  # [batch, qo_len, num_qo_heads, num_splits]; log2 domain
    part_sum: torch.Tensor  # [batch, qo_len, num_qo_heads, num_splits]

    @property
    def num_splits(self) -> int:
        """Splits that the workspace has room for."""
        return int(self.part_max.shape[-1]) if self.part_max.dim() else 0


def allocate_workspace(q: torch.Tensor, num_splits: int) -> Workspace:
    """Room for `num_splits` splits of a call with this q [batch, qo_len, num_qo_heads, head_dim], on q's device.

    Raises TypeError and ValueError naming the argument.
    """
    import torch

    if not isinstance(q, torch.Tensor):
        raise TypeError(f"q is {type(q).__name__}, accepted is torch.Tensor")
    checks.check_rank("q", q, 4, checks.Q_AXES)
    checks.check_count("num_splits", num_splits)
    checks.check_splits(num_splits)
    rows = (*q.shape[:3], num_splits)
    return Workspace(
        torch.empty((*rows, q.shape[3]), dtype=torch.float32, device=q.device),
        torch.empty(rows, dtype=torch.float32, device=q.device),
        torch.empty(rows, dtype=torch.float32, device=q.device),
    )
