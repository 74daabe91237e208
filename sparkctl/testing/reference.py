"""The fp64 references, slow and obvious, and the plain emulation whose error says what a kernel may err.

One reference for every attention operator; pages are gathered and packed batches taken apart by the caller. q
`[batch, qo_len, num_qo_heads, head_dim]`, k and v `[batch, kv_len, num_kv_heads, head_dim]`, kv_lens `[batch]`; lse
`[batch, qo_len, num_qo_heads]`, natural logarithm. The options mean what they mean to the operators: a mask is boolean,
of rank 2 `[qo_len, kv_len]`, 3 `[batch, 1 | qo_len, kv_len]` or 4 `[batch, 1 | heads, 1 | qo_len, kv_len]`; sinks
`[num_qo_heads]`. Nothing here comes from the operators, so that they can be judged by it. Everything stays on the
device of the inputs and nothing waits for it. A key that no query sees may hold NaN.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def attention_reference(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    kv_lens: Tensor | None = None,
    scale: float | None = None,
    causal: bool = False,
    window: int | None = None,
    softcap: float | None = None,
    mask: Tensor | None = None,
    sinks: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """(out, lse) in fp64. A query row that sees no key gives 0 and −inf, or its sink. Causal is bottom-right."""
    import torch

    visible = visible_keys(q, k, kv_lens, causal, window, mask)
    scores = capped(grouped_scores(q.double(), k.double(), scale), softcap)
    logits = with_sinks(scores.masked_fill(~visible, -math.inf), q, sinks)
    top = logits.amax(-1, keepdim=True)
    weights = torch.where(logits == top, 1.0, torch.exp(logits - top))
    weights = torch.where(top == -math.inf, 0.0, weights)
    total = weights.sum(-1, keepdim=True)
    values = weighted_values(weights[..., :-1], read_values(v.double(), visible))
    out = values / torch.where(total == 0, 1.0, total)
    lse = top + torch.log(total)
    return ungroup(out, q), ungroup(lse, q)[..., 0]


def plain_emulation(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    kv_lens: Tensor | None = None,
    scale: float | None = None,
    causal: bool = False,
    window: int | None = None,
    softcap: float | None = None,
    mask: Tensor | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """out as a plain implementation of q's dtype gives it: softmax in fp32, its weights and the output rounded."""
    import torch

    visible = visible_keys(q, k, kv_lens, causal, window, mask)
    scores = capped(grouped_scores(q.float(), k.float(), scale), softcap)
    logits = with_sinks(scores.masked_fill(~visible, -math.inf), q, sinks)
    weights = torch.nan_to_num(torch.softmax(logits, dim=-1), nan=0.0)[..., :-1].to(q.dtype)
    out = weighted_values(weights.float(), read_values(v.float(), visible))
    return ungroup(out, q).to(q.dtype)


def combine_reference(
    part_acc: Tensor, part_max: Tensor, part_sum: Tensor, sinks: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """(out, lse) in fp64 from un-normalised partials; part_max is in the log2 domain.

    part_acc `[..., num_qo_heads, num_splits, head_dim]`, part_max and part_sum `[..., num_qo_heads, num_splits]`. A
    split whose sum is 0 weighs nothing, whatever its part_acc holds. sinks `[num_qo_heads]`, natural logarithm.
    """
    import torch

    live = part_sum != 0
    top = part_max.double().masked_fill(~live, -math.inf).amax(-1, keepdim=True)
    weights = torch.where(live, torch.exp2(part_max.double() - top), 0.0)
    total = (weights * part_sum.double()).sum(-1, keepdim=True)
    values = torch.where(live[..., None], part_acc.double(), 0.0)
    out = (weights[..., None] * values).sum(-2) / torch.where(total == 0, 1.0, total)
    lse = torch.where(total == 0, -math.inf, top * math.log(2) + torch.log(total))[..., 0]
    if sinks is None:
        return out, lse
    with_sink = torch.logaddexp(lse, sinks.double())
    share = torch.where(lse == -math.inf, 0.0, torch.exp(lse - with_sink))  # that the splits have beside the sink
    return out * share[..., None], with_sink


def merge_reference(out: Tensor, lse: Tensor) -> tuple[Tensor, Tensor]:
    """(out, lse) in fp64 from normalised states out `[num_states, …, head_dim]` and lse `[num_states, …]`.

    A state whose lse is −inf weighs nothing, whatever its out holds.
    """
    import torch

    live = lse != -math.inf
    top = lse.double().amax(0)
    weights = torch.where(live, torch.exp(lse.double() - top), 0.0)
    total = weights.sum(0)
    values = torch.where(live[..., None], out.double(), 0.0)
    merged = (weights[..., None] * values).sum(0) / torch.where(total == 0, 1.0, total)[..., None]
    return merged, torch.where(total == 0, -math.inf, top + torch.log(total))


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


def capped(scores: Tensor, softcap: float | None) -> Tensor:
    """Soft-capped scores: cap * tanh(score / cap)."""
    import torch

    return scores if softcap is None else softcap * torch.tanh(scores / softcap)


def with_sinks(scores: Tensor, q: Tensor, sinks: Tensor | None) -> Tensor:
    """The scores and one more column: each row's sink, −inf where there is none."""
    import torch

    batch, num_kv_heads, rows, _ = scores.shape
    column = scores.new_full((batch, num_kv_heads, rows, 1), -math.inf)
    if sinks is not None:
        column[:] = sinks.to(scores.dtype).view(num_kv_heads, -1).repeat(1, q.shape[1])[None, :, :, None]
    return torch.cat((scores, column), -1)


def visible_keys(
    q: Tensor, k: Tensor, kv_lens: Tensor | None, causal: bool, window: int | None, mask: Tensor | None
) -> Tensor:
    """Which key each query row sees `[batch, 1 | num_kv_heads, qo_len * group, kv_len]`.

    Query i stands at kv_len − qo_len + i: causal hides the keys behind it, a window those more than `window` before.
    """
    import torch

    batch, qo_len, num_qo_heads, _ = q.shape
    capacity, num_kv_heads = k.shape[1], k.shape[2]
    group = num_qo_heads // num_kv_heads
    lens = torch.full((batch,), capacity, device=q.device) if kv_lens is None else kv_lens.long()
    key = torch.arange(capacity, device=q.device)
    query = torch.arange(qo_len, device=q.device).repeat_interleave(group)
    own = (lens[:, None] - qo_len + query)[:, :, None]
    visible = (key < lens[:, None]).unsqueeze(1).expand(batch, len(query), capacity)
    if causal:
        visible = visible & (key <= own)
    if window is not None:
        visible = visible & (key >= own - window)
    visible = visible.unsqueeze(1)
    if mask is None:
        return visible
    by_rank = {2: lambda: mask[None, None], 3: lambda: mask[:, None], 4: lambda: mask}
    whole = by_rank[mask.dim()]().expand(batch, num_qo_heads, qo_len, capacity)
    rows = whole.reshape(batch, num_kv_heads, group, qo_len, capacity).transpose(2, 3)
    return visible & rows.reshape(batch, num_kv_heads, qo_len * group, capacity)


def read_values(v: Tensor, visible: Tensor) -> Tensor:
    """v with zeros where no row sees it and it may hold NaN: 0 · NaN would not be 0."""
    import torch

    seen = visible.any(2).transpose(1, 2)  # [batch, kv_len, 1 | num_kv_heads]
    return torch.where(seen[..., None], v, 0.0)


def weighted_values(weights: Tensor, v: Tensor) -> Tensor:
    """Weights `[batch, num_kv_heads, rows, kv_len]` times v -> `[batch, num_kv_heads, rows, head_dim]`."""
    return weights @ v.permute(0, 2, 1, 3)


def ungroup(rows: Tensor, q: Tensor) -> Tensor:
    """`[batch, num_kv_heads, qo_len * group, n]` -> `[batch, qo_len, num_qo_heads, n]`."""
    batch, qo_len, num_qo_heads, _ = q.shape
    num_kv_heads = rows.shape[1]
    rows = rows.reshape(batch, num_kv_heads, qo_len, num_qo_heads // num_kv_heads, rows.shape[-1])
    return rows.permute(0, 2, 1, 3, 4).reshape(batch, qo_len, num_qo_heads, rows.shape[-1])
