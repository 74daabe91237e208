"""Attention in plain torch, vectorised: what CPU tensors get, and shapes that the library has no variant for."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from sparkctl.ops.options import AttentionOptions

if TYPE_CHECKING:
    import torch

LOG2_E = 1.4426950408889634
_said: set[str] = set()


def say_once(message: str) -> None:
    """Warn, the first time that this message is met in the process."""
    if message not in _said:
        _said.add(message)
        warnings.warn(message, RuntimeWarning, stacklevel=4)


def attention_torch(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    kv_lens: torch.Tensor | None,
    options: AttentionOptions,
    qo_lens: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """out [batch, qo_len, num_qo_heads, head_dim] in q's dtype and lse [batch, qo_len, num_qo_heads] in fp32.

    q [batch, qo_len, num_qo_heads, head_dim], k and v [batch, kv_len, num_kv_heads, head_dim]. fp32 throughout; keys
    at or past a sequence's length, or that a window hides from every query, are not read. With qo_lens [batch] a
    sequence's queries are its first ones, and the rows behind them mean nothing.
    """
    import torch

    batch, qo_len, num_qo_heads, head_dim = q.shape
    kv_len, num_kv_heads = k.shape[1], k.shape[2]
    group = num_qo_heads // num_kv_heads
    positions = torch.arange(kv_len, device=q.device)
    lens = (
        torch.full((batch,), kv_len, device=q.device)
        if kv_lens is None
        else kv_lens.to(device=q.device, dtype=torch.int64)
    )
    present = positions[None, :] < lens[:, None]  # [batch, kv_len]
    first = lens - (qo_len if qo_lens is None else qo_lens.long())  # position of each sequence's first query
    own = first[:, None] + torch.arange(qo_len, device=q.device)  # position of each query, [batch, qo_len]
    visible = present[:, None, :].expand(batch, qo_len, kv_len)
    if options.causal:
        visible = visible & (positions <= own[:, :, None])
    if options.window is not None:
        visible = visible & (positions >= own[:, :, None] - options.window)
    visible = visible[:, None]  # [batch, 1 or num_qo_heads, qo_len, kv_len]
    if options.mask is not None:
        visible = visible & options.mask
    visible = visible.expand(batch, num_qo_heads, qo_len, kv_len).reshape(batch, num_kv_heads, group, qo_len, kv_len)

    # unused keys may hold anything, NaN too: they must not enter a product
    used = present if options.window is None else present & (positions >= (first - options.window)[:, None])
    unused = ~used[:, :, None, None]
    k32 = k.float().masked_fill(unused, 0.0)
    v32 = v.float().masked_fill(unused, 0.0)
    q32 = q.float().reshape(batch, qo_len, num_kv_heads, group, head_dim)
    scores = torch.einsum("bihgd,bjhd->bhgij", q32, k32) * options.scale
    if options.softcap is not None:
        scores = options.softcap * torch.tanh(scores / options.softcap)
    scores = scores.masked_fill(~visible, float("-inf"))
    lse = torch.logsumexp(scores, dim=-1)  # [batch, num_kv_heads, group, qo_len]; -inf where nothing is visible
    if options.sinks is not None:
        lse = torch.logaddexp(lse, options.sinks.reshape(1, num_kv_heads, group, 1))
    weights = torch.exp(scores - lse.masked_fill(lse == float("-inf"), 0.0)[..., None])
    out = torch.einsum("bhgij,bjhd->bihgd", weights, v32).reshape(q.shape).to(q.dtype).contiguous()
    lse = lse.permute(0, 3, 1, 2).reshape(batch, qo_len, num_qo_heads).contiguous()
    if options.sinks is not None:
        out.masked_fill_(lse.isnan()[..., None], float("nan"))  # also of a sink that has no key beside it
    return out, lse


def merge_torch(out: torch.Tensor, lse: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(out, lse) merged over the first axis of states [num_states, …, head_dim] and their lse [num_states, …].

    A state with lse -inf weighs nothing and its out may hold anything.
    """
    import torch

    top = lse.amax(0)
    weights = torch.exp(lse - top.masked_fill(top == float("-inf"), 0.0))
    total = weights.sum(0)
    values = out.float().masked_fill((lse == float("-inf"))[..., None], 0.0)
    merged = torch.einsum("s...d,s...->...d", values, weights) / total.masked_fill(total == 0, 1.0)[..., None]
    return merged.to(out.dtype).contiguous(), top + torch.log(total)


def combine_torch(
    part_acc: torch.Tensor,
    part_max: torch.Tensor,
    part_sum: torch.Tensor,
    *,
    sinks: torch.Tensor | None,
    dtype: torch.dtype,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(out, lse) of un-normalised partials [batch, qo_len, num_qo_heads, num_splits, head_dim]; part_max is in the log2
    domain. A split with sum 0 weighs nothing and its accumulator may hold anything."""
    import torch

    empty = part_sum == 0
    top = part_max.masked_fill(empty, float("-inf")).amax(-1)
    if sinks is not None:
        # the product of a large one is infinite
        sinks_log2 = (sinks * LOG2_E).clamp(max=torch.finfo(torch.float32).max)
        top = torch.maximum(top, sinks_log2)
    shift = top.masked_fill(top == float("-inf"), 0.0)
    weights = torch.exp2(part_max - shift[..., None]).masked_fill(empty, 0.0)
    total = (weights * part_sum).sum(-1)
    if sinks is not None:
        total = total + torch.exp2(sinks_log2 - shift)
    values = part_acc.masked_fill(empty[..., None], 0.0)
    out = torch.einsum("...sd,...s->...d", values, weights) / total.masked_fill(total == 0, 1.0)[..., None]
    lse = (shift + torch.log2(total)) / LOG2_E
    if sinks is not None:
        lse = torch.maximum(lse, sinks)  # where the clamp was
    return out.to(dtype).contiguous(), lse


def gather_pages(
    pages: torch.Tensor, page_table: torch.Tensor, kv_lens: torch.Tensor, first_keys: torch.Tensor | None = None
) -> torch.Tensor:
    """[batch, max_pages * page_size, num_kv_heads, head_dim] of pages [num_pages, page_size, num_kv_heads, head_dim].

    Entries past a sequence's last page, and those of keys before first_keys [batch] alone, may hold anything: they
    read page 0. ValueError for a page that is not there (CPU tensors only; on a device torch's own index check
    applies).
    """
    import torch

    page_size, num_pages = pages.shape[1], pages.shape[0]
    start = torch.arange(page_table.shape[1], device=page_table.device) * page_size  # an entry's first key
    used = start < kv_lens[:, None]
    if first_keys is not None:
        used = used & (start + page_size > first_keys[:, None])
    ids = torch.where(used, page_table, 0).long()
    if ids.device.type == "cpu" and bool(((ids < 0) | (ids >= num_pages))[used].any()):
        if num_pages == 0:
            raise ValueError("k_pages has 0 pages, accepted is 1 or more where a sequence has keys")
        raise ValueError(
            f"page_table holds {ids[used].tolist()}, accepted is 0 to {num_pages - 1}, the pages of k_pages"
        )
    if num_pages == 0 or ids.numel() == 0:
        shape = (page_table.shape[0], page_table.shape[1] * page_size, *pages.shape[2:])
        return torch.zeros(shape, dtype=pages.dtype, device=pages.device)
    return pages[ids].flatten(1, 2)


def unpack(packed: torch.Tensor, indptr: torch.Tensor, longest: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(padded [batch, longest, …], present [batch, longest]) of packed [total, …], row indptr[b] being b's first."""
    import torch

    starts, lens = indptr[:-1, None].long(), indptr.diff()[:, None]
    rows = torch.arange(longest, device=packed.device)
    present = rows < lens
    if packed.shape[0] == 0:
        return packed.new_zeros((*present.shape, *packed.shape[1:])), present
    return packed[(starts + rows).clamp(max=packed.shape[0] - 1)], present
