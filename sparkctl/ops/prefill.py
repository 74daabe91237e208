"""The prefill operator: checks, plan, one call into the library (or the torch fallback)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sparkctl.ops import checks
from sparkctl.ops.call import PLAIN_TORCH, OperatorBackend, hand_over
from sparkctl.ops.choices import check_choices, check_memory
from sparkctl.ops.fallback import attention_torch, gather_pages, unpack
from sparkctl.ops.options import AttentionOptions, check_options
from sparkctl.ops.prefill_call import choose_prefill_call
from sparkctl.ops.prefill_inputs import PrefillInputs, check_inputs, longest_of
from sparkctl.ops.prefill_plan import PrefillShape
from sparkctl.ops.tracing import under_compile
from sparkctl.runtime import Library

if TYPE_CHECKING:
    import torch


@under_compile
def prefill(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    page_table: torch.Tensor | None = None,
    kv_lens: torch.Tensor | None = None,
    qo_indptr: torch.Tensor | None = None,
    kv_indptr: torch.Tensor | None = None,
    max_qo_len: int | None = None,
    scale: float | None = None,
    causal: bool = False,
    window: int | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
    mask: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    return_lse: bool = False,
    kernel: str = "auto",
    variant: str | None = None,
    backend: OperatorBackend = "auto",
    library: Library | None = None,
    explain: bool = False,
) -> Any:
    """Attention of many query positions; each query tile reads the keys that it may see once.

    q [batch, qo_len, num_qo_heads, head_dim], or a ragged batch packed into [total_qo, num_qo_heads, head_dim] with
    qo_indptr int32 [batch + 1]: sequence b has the rows qo_indptr[b] to qo_indptr[b + 1] - 1. A device's qo_indptr is
    not read by the host, so `max_qo_len`, the longest sequence's length or more, is needed there: the launch is planned
    for it. k and v are one of

    - contiguous [batch, kv_len, num_kv_heads, head_dim], with kv_lens int32 [batch] where lengths differ;
    - packed [total_kv, num_kv_heads, head_dim] with kv_indptr int32 [batch + 1];
    - pages [num_pages, page_size, num_kv_heads, head_dim] with page_table int32 [batch, max_pages] and kv_lens.

    bf16 or fp16, any strides whose last is 1 and whose rows start at multiples of 16 bytes. `scale`, `causal`,
    `window`, `softcap` and `sinks` are as in `decode`; causal and window count positions inside a sequence, whose last
    query stands at its last key. A `mask` has the shapes that `decode` takes, with qo_len the longest sequence's and
    kv_len the length of k (pages: max_pages * page_size; packed: at least the longest sequence); rows and keys are
    counted inside their sequence. A row with no visible key gets out 0 and lse -inf, or its sink.

    `kernel` and `variant` force a choice; `backend` "auto" runs the library for CUDA tensors and plain torch for CPU
    tensors, "emulator" the CPU emulator's library. Returns out shaped as q, or (out, lse) with lse float32 [batch,
    qo_len, num_qo_heads] or [total_qo, num_qo_heads] in natural log; `out` and `lse` are written in place where
    given, in memory that no other argument has. With `explain` nothing runs and the PrefillPlan is returned. Raises
    TypeError and ValueError naming the argument, MissingTool when no library is built for the device.
    """
    import torch

    check_choices(kernel, variant, library, return_lse=return_lse, explain=explain)
    inputs = PrefillInputs(q, k, v, page_table, kv_lens, qo_indptr, kv_indptr)
    shape = check_inputs(inputs, max_qo_len, out, lse)
    if mask is not None:
        checks.check_tensor("mask", mask)
    options = check_options(
        q,
        (shape.batch, shape.num_qo_heads, shape.qo_len, _mask_width(inputs, shape, mask)),
        scale=scale,
        causal=causal,
        window=window,
        softcap=softcap,
        mask=_rows_of_mask(mask, max_qo_len, shape.qo_len),
        sinks=sinks,
    )
    check_memory((*inputs.named(), ("mask", mask), ("sinks", sinks)), out, lse)
    call = choose_prefill_call(q, shape, kernel, variant, backend, library)
    if explain:
        return call.plan if call is not None else PLAIN_TORCH
    if call is None:
        return hand_over(*prefill_torch(inputs, shape, options), out, return_lse, lse)
    if out is None:
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if lse is None and return_lse:
        lse = torch.empty(q.shape[:-1], dtype=torch.float32, device=q.device)
    call.run(inputs.arguments(), shape.qo_len, (out, lse), options)
    return (out, lse) if lse is not None else out


def prefill_torch(
    inputs: PrefillInputs, shape: PrefillShape, options: AttentionOptions
) -> tuple[torch.Tensor, torch.Tensor]:
    """(out, lse) in plain torch: packed tensors are padded, pages gathered, and every sequence computed at once."""
    q, k, v, kv_lens, qo_lens, is_query = inputs.q, inputs.k, inputs.v, inputs.kv_lens, None, None
    if inputs.kv_indptr is not None:
        longest = longest_of(inputs.kv_indptr)
        k, v = (unpack(packed, inputs.kv_indptr, longest)[0] for packed in (k, v))
        kv_lens = inputs.kv_indptr.diff()
    if inputs.qo_indptr is not None:
        q, is_query = unpack(q, inputs.qo_indptr, shape.qo_len)
        qo_lens = inputs.qo_indptr.diff()
    if inputs.page_table is not None:
        assert kv_lens is not None  # check_inputs
        queries = shape.qo_len if qo_lens is None else qo_lens
        first = None if options.window is None else (kv_lens - queries - options.window).clamp(min=0)
        k, v = (gather_pages(pages, inputs.page_table, kv_lens, first) for pages in (k, v))
    if options.mask is not None:
        options = replace(options, mask=options.mask[..., : k.shape[1]])
    out, lse = attention_torch(q, k, v, kv_lens=kv_lens, options=options, qo_lens=qo_lens)
    return (out, lse) if is_query is None else (out[is_query], lse[is_query])


def _rows_of_mask(mask: Any, max_qo_len: int | None, qo_len: int) -> Any:
    """The rows of the queries that there are, of a mask made for a max_qo_len above the longest sequence."""
    if max_qo_len is None or max_qo_len <= qo_len or getattr(mask, "ndim", 0) < 2 or mask.shape[-2] != max_qo_len:
        return mask
    return mask[..., :qo_len, :]


def _mask_width(inputs: PrefillInputs, shape: PrefillShape, mask: torch.Tensor | None) -> int:
    """The kv_len that a mask must have. Over packed keys any that holds the longest sequence, which only CPU tensors
    can tell.
    """
    if inputs.kv_indptr is None or getattr(mask, "ndim", 0) == 0:
        return shape.kv_len
    assert mask is not None
    longest = longest_of(inputs.kv_indptr) if inputs.kv_indptr.device.type == "cpu" else 0
    return max(int(mask.shape[-1]), longest)
