"""The paged decode operator: checks, plan, one call into the library (or the torch fallback)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sparkctl.ops import checks
from sparkctl.ops.call import PLAIN_TORCH, OperatorBackend, choose_call, hand_over, run_call
from sparkctl.ops.choices import check_choices, check_memory
from sparkctl.ops.fallback import attention_torch, gather_pages
from sparkctl.ops.flags import FlagValue
from sparkctl.ops.options import check_options, visible_length
from sparkctl.ops.plan import DecodeShape
from sparkctl.ops.tracing import under_compile
from sparkctl.ops.workspace import Workspace
from sparkctl.runtime import Library

if TYPE_CHECKING:
    import torch

PAGE_AXES = "[num_pages, page_size, num_kv_heads, head_dim]"
CAPACITY = "the keys that page_table has room for"


@under_compile
def paged_decode(
    q: torch.Tensor,
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    page_table: torch.Tensor,
    kv_lens: torch.Tensor,
    *,
    scale: float | None = None,
    causal: bool = False,
    window: int | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
    mask: torch.Tensor | None = None,
    num_splits: int | None = None,
    max_kv_len: int | None = None,
    total_kv_len: int | None = None,
    out: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    return_lse: bool = False,
    workspace: Workspace | None = None,
    kernel: str = "auto",
    variant: str | None = None,
    backend: OperatorBackend = "auto",
    library: Library | None = None,
    flags: Mapping[str, FlagValue] | None = None,
    explain: bool = False,
) -> Any:
    """Attention of a few new query positions over a paged K/V cache, split along kv.

    q [batch, qo_len, num_qo_heads, head_dim]; k_pages, v_pages [num_pages, page_size, num_kv_heads, head_dim] with any
    page_size from 1 on and any strides whose last is 1; page_table int32 [batch, max_pages] holds page ids, kv_lens
    int32 [batch] the keys of each sequence. Key j of sequence b lies in page page_table[b, j // page_size]. Entries
    past a sequence's last page are not read and may hold anything; so may the keys of that page past its length, and
    everything that a window hides from every query.

    Everything else is as in `decode`; max_kv_len defaults to max_pages * page_size, which also is a mask's kv_len. With
    an identity table the result is that of `decode`, bit for bit, for the same num_splits.
    """
    check_choices(kernel, variant, library, flags=flags, return_lse=return_lse, explain=explain)
    shape = _check(q, k_pages, v_pages, page_table, kv_lens, out, lse, max_kv_len, total_kv_len, num_splits)
    options = check_options(
        q,
        (shape.batch, shape.num_qo_heads, shape.qo_len, page_table.shape[1] * k_pages.shape[1]),
        scale=scale,
        causal=causal,
        window=window,
        softcap=softcap,
        mask=mask,
        sinks=sinks,
    )
    if window is not None:
        shape = replace(shape, kv_len=visible_length(shape.kv_len, shape.qo_len, window))
    call = choose_call(q, shape, "paged_decode", kernel, variant, backend, library, num_splits, workspace, flags)
    cache = (("k_pages", k_pages), ("v_pages", v_pages), ("page_table", page_table), ("kv_lens", kv_lens))
    check_memory((("q", q), *cache, ("mask", mask), ("sinks", sinks)), out, lse, workspace)
    if explain:
        return call.plan if call is not None else PLAIN_TORCH
    if call is not None:
        inputs = (q, k_pages, v_pages, page_table, kv_lens)
        return run_call(call, inputs, out, lse, return_lse, workspace, options)
    first_keys = None if options.window is None else kv_lens - shape.qo_len - options.window
    k, v = (gather_pages(pages, page_table, kv_lens, first_keys) for pages in (k_pages, v_pages))
    result, result_lse = attention_torch(q, k, v, kv_lens=kv_lens, options=options)
    return hand_over(result, result_lse, out, return_lse, lse)


def _check(
    q: Any,
    k_pages: Any,
    v_pages: Any,
    page_table: Any,
    kv_lens: Any,
    out: Any,
    lse: Any,
    max_kv_len: int | None,
    total_kv_len: int | None,
    num_splits: int | None,
) -> DecodeShape:
    dtype = checks.check_query(q, out, lse)
    for name, tensor in (("k_pages", k_pages), ("v_pages", v_pages)):
        checks.check_tensor(name, tensor)
    checks.check_rank("k_pages", k_pages, 4, PAGE_AXES)
    batch, qo_len, num_qo_heads, head_dim = q.shape
    num_pages, page_size, num_kv_heads = k_pages.shape[:3]
    if page_size < 1:
        raise ValueError("page_size is 0, accepted is 1 or more")
    checks.check_shape("k_pages", k_pages, (num_pages, page_size, num_kv_heads, head_dim), PAGE_AXES)
    checks.check_shape("v_pages", v_pages, tuple(k_pages.shape), f"{PAGE_AXES}, as k_pages")
    for name, tensor in (("k_pages", k_pages), ("v_pages", v_pages)):
        checks.check_same(name, tensor, "q", q)
    checks.check_heads(num_qo_heads, num_kv_heads)
    checks.check_tensor("page_table", page_table)
    checks.check_rank("page_table", page_table, 2, "[batch, max_pages]")
    checks.check_shape("page_table", page_table, (batch, page_table.shape[1]), "[batch, max_pages]")
    checks.check_int32("page_table", page_table, q)
    capacity = page_table.shape[1] * page_size
    checks.check_kv_lens(kv_lens, q, batch, capacity, CAPACITY)
    planned = checks.check_plan(num_splits, max_kv_len, total_kv_len, batch, capacity, CAPACITY)
    return DecodeShape(batch, qo_len, num_qo_heads, num_kv_heads, head_dim, planned, dtype, page_size, total_kv_len)
