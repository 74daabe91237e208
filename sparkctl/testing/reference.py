"""The fp64 references, slow and obvious, and the plain emulation whose error says what a kernel may err.

Shapes as in docs/kernels: q `[batch, qo_len, num_qo_heads, head_dim]`, k and v `[batch, kv_len, num_kv_heads,
head_dim]`, kv_lens `[batch]`; lse `[batch, qo_len, num_qo_heads]`, natural logarithm. Everything stays on the device
of the inputs and nothing waits for it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def attention_reference(
    q: Tensor, k: Tensor, v: Tensor, *, kv_lens: Tensor | None = None, scale: float | None = None, causal: bool = False
) -> tuple[Tensor, Tensor]:
    """(out, lse) in fp64. A query row that sees no key gives 0 and −inf. Causal masks are aligned bottom-right."""
    import torch

    scores = grouped_scores(q.double(), k.double(), scale)
    visible = visible_keys(q, k, kv_lens, causal)
    scores = scores.masked_fill(~visible, -math.inf)
    top = scores.amax(-1, keepdim=True) if k.shape[1] else scores.new_full((*scores.shape[:-1], 1), -math.inf)
    weights = torch.exp(scores - torch.where(top == -math.inf, 0.0, top))
    total = weights.sum(-1, keepdim=True)
    out = weighted_values(weights, read_values(v.double(), kv_lens)) / torch.where(total == 0, 1.0, total)
    lse = top + torch.log(total)
    return ungroup(out, q), ungroup(lse, q)[..., 0]


def plain_emulation(
    q: Tensor, k: Tensor, v: Tensor, *, kv_lens: Tensor | None = None, scale: float | None = None, causal: bool = False
) -> Tensor:
    """out as a plain implementation of q's dtype gives it: softmax in fp32, its weights and the output rounded."""
    import torch

    scores = grouped_scores(q.float(), k.float(), scale)
    scores = scores.masked_fill(~visible_keys(q, k, kv_lens, causal), -math.inf)
    weights = torch.nan_to_num(torch.softmax(scores, dim=-1), nan=0.0).to(q.dtype)
    out = weighted_values(weights.float(), read_values(v.float(), kv_lens))
    return ungroup(out, q).to(q.dtype)


def combine_reference(part_acc: Tensor, part_max: Tensor, part_sum: Tensor) -> tuple[Tensor, Tensor]:
    """(out, lse) in fp64 from un-normalised partials; part_max is in the log2 domain.

    part_acc `[..., num_splits, head_dim]`, part_max and part_sum `[..., num_splits]`. A split whose sum is 0 weighs
    nothing, whatever its part_acc holds.
    """
    import torch

    live = part_sum != 0
    top = part_max.double().masked_fill(~live, -math.inf).amax(-1, keepdim=True)
    weights = torch.where(live, torch.exp2(part_max.double() - top), 0.0)
    total = (weights * part_sum.double()).sum(-1, keepdim=True)
    values = torch.where(live[..., None], part_acc.double(), 0.0)
    out = (weights[..., None] * values).sum(-2) / torch.where(total == 0, 1.0, total)
    lse = torch.where(total == 0, -math.inf, top * math.log(2) + torch.log(total))
    return out, lse[..., 0]


def grouped_scores(q: Tensor, k: Tensor, scale: float | None) -> Tensor:
    """Scaled q·k `[batch, num_kv_heads, qo_len * group, kv_len]`: query heads lie beside the kv head they read.

    Keys that are never read may hold NaN: only scores that the mask removes are touched by it.
    """
    batch, qo_len, num_qo_heads, head_dim = q.shape
    num_kv_heads = k.shape[2]
    group = num_qo_heads // num_kv_heads
    rows = q.reshape(batch, qo_len, num_kv_heads, group, head_dim).permute(0, 2, 1, 3, 4)
    rows = rows.reshape(batch, num_kv_heads, qo_len * group, head_dim)
    return rows @ k.permute(0, 2, 3, 1) * (1 / math.sqrt(head_dim) if scale is None else scale)


def visible_keys(q: Tensor, k: Tensor, kv_lens: Tensor | None, causal: bool) -> Tensor:
    """Which key each query row sees `[batch, 1, qo_len * group, kv_len]`: query i sees keys ≤ kv_len − qo_len + i."""
    import torch

    batch, qo_len, num_qo_heads, _ = q.shape
    capacity = k.shape[1]
    lens = torch.full((batch,), capacity, device=q.device) if kv_lens is None else kv_lens.long()
    key = torch.arange(capacity, device=q.device)
    query = torch.arange(qo_len, device=q.device).repeat_interleave(num_qo_heads // k.shape[2])
    visible = (key < lens[:, None]).unsqueeze(1).expand(batch, len(query), capacity)
    if causal:
        visible = visible & (key <= (lens[:, None] - qo_len + query)[:, :, None])
    return visible.unsqueeze(1)


def read_values(v: Tensor, kv_lens: Tensor | None) -> Tensor:
    """v with zeros past each sequence's end, where it may hold NaN: 0 · NaN would not be 0."""
    import torch

    if kv_lens is None:
        return v
    inside = torch.arange(v.shape[1], device=v.device) < kv_lens[:, None]
    return torch.where(inside[:, :, None, None], v, 0.0)


def weighted_values(weights: Tensor, v: Tensor) -> Tensor:
    """Weights `[batch, num_kv_heads, rows, kv_len]` times v -> `[batch, num_kv_heads, rows, head_dim]`."""
    return weights @ v.permute(0, 2, 1, 3)


def ungroup(rows: Tensor, q: Tensor) -> Tensor:
    """`[batch, num_kv_heads, qo_len * group, n]` -> `[batch, qo_len, num_qo_heads, n]`."""
    batch, qo_len, num_qo_heads, _ = q.shape
    num_kv_heads = rows.shape[1]
    rows = rows.reshape(batch, num_kv_heads, qo_len, num_qo_heads // num_kv_heads, rows.shape[-1])
    return rows.permute(0, 2, 1, 3, 4).reshape(batch, qo_len, num_qo_heads, rows.shape[-1])
