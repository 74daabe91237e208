"""The decode operator: checks, plan, one call into the library (or the torch fallback)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sparkctl.ops import checks
from sparkctl.ops.call import PLAIN_TORCH, OperatorBackend, choose_call, hand_over, run_call
from sparkctl.ops.choices import check_choices, check_memory
from sparkctl.ops.fallback import attention_torch
from sparkctl.ops.flags import FlagValue
from sparkctl.ops.options import check_options, visible_length
from sparkctl.ops.plan import DecodeShape
from sparkctl.ops.tracing import under_compile
from sparkctl.ops.workspace import Workspace
from sparkctl.runtime import Library

if TYPE_CHECKING:
    import torch

KV_AXES = "[batch, kv_len, num_kv_heads, head_dim]"


@under_compile
def decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    kv_lens: torch.Tensor | None = None,
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
    """Attention of a few new query positions over a contiguous K/V cache, split along kv.

    q [batch, qo_len, num_qo_heads, head_dim]; k, v [batch, kv_len, num_kv_heads, head_dim]; bf16 or fp16, any strides
    whose last is 1 and whose rows start at multiples of 16 bytes. kv_lens int32 [batch] on the same device gives ragged
    lengths. `causal` is bottom-right aligned: query i sees keys <= kv_len - qo_len + i. `scale` defaults to
    1/sqrt(head_dim); it is 0, or of a size from 1e-30 to 1e30. A row with no visible key gets out 0 and lse -inf.

    `window` w hides keys more than w before the query's own position. `softcap` c makes scores c * tanh(score / c).
    `mask` is boolean, True where visible: [qo_len, kv_len], [batch, 1 or qo_len, kv_len] or [batch, 1 or num_qo_heads,
    1 or qo_len, kv_len]. `sinks` float32 [num_qo_heads] adds one logit to each row of a head, in the denominator alone;
    lse counts it, and beside one of inf out is 0. All of them may be combined; where they are off they cost nothing.

    num_splits None plans the splits for `max_kv_len` (default: k's length), as if all sequences were so long, or for a
    ragged batch of `total_kv_len` keys in all; the real lengths are read on the device, so a captured graph replays at
    any length. `kernel` and `variant` force a choice; `backend` "auto" runs the library for
    CUDA tensors and plain torch for CPU tensors, "emulator" the CPU emulator's library. `flags` sets run-time flags of
    flags.yaml for this call, as in {"FAPIPE": 0}; it beats the environment's SPARKCTL_FLAG_<NAME>, and a forced variant
    beats both.

    Returns out, or (out, lse) with lse float32 [batch, qo_len, num_qo_heads] in natural log. `out` and `lse` are
    written in place where they are given, in memory that no other argument has; with a `workspace` beside them nothing
    is allocated. With `explain` nothing runs and the DecodePlan is returned. Under torch.compile the call becomes
    `torch.ops.sparkctl.decode`.

    Raises TypeError and ValueError naming the argument, MissingTool when no library is built for the device.
    """
    check_choices(kernel, variant, library, flags=flags, return_lse=return_lse, explain=explain)
    shape = _check(q, k, v, kv_lens, out, lse, max_kv_len, total_kv_len, num_splits)
    options = check_options(
        q,
        (shape.batch, shape.num_qo_heads, shape.qo_len, k.shape[1]),
        scale=scale,
        causal=causal,
        window=window,
        softcap=softcap,
        mask=mask,
        sinks=sinks,
    )
    if window is not None:
        shape = replace(shape, kv_len=visible_length(shape.kv_len, shape.qo_len, window))
    call = choose_call(q, shape, "decode", kernel, variant, backend, library, num_splits, workspace, flags)
    tensors = (("q", q), ("k", k), ("v", v), ("kv_lens", kv_lens), ("mask", mask), ("sinks", sinks))
    check_memory(tensors, out, lse, workspace)
    if explain:
        return call.plan if call is not None else PLAIN_TORCH
    if call is not None:
        return run_call(call, (q, k, v, kv_lens), out, lse, return_lse, workspace, options)
    result, result_lse = attention_torch(q, k, v, kv_lens=kv_lens, options=options)
    return hand_over(result, result_lse, out, return_lse, lse)


def _check(
    q: Any,
    k: Any,
    v: Any,
    kv_lens: Any,
    out: Any,
    lse: Any,
    max_kv_len: int | None,
    total_kv_len: int | None,
    num_splits: int | None,
) -> DecodeShape:
    dtype = checks.check_query(q, out, lse)
    for name, tensor in (("k", k), ("v", v)):
        checks.check_tensor(name, tensor)
    checks.check_rank("k", k, 4, KV_AXES)
    batch, qo_len, num_qo_heads, head_dim = q.shape
    kv_len, num_kv_heads = k.shape[1], k.shape[2]
    checks.check_shape("k", k, (batch, kv_len, num_kv_heads, head_dim), KV_AXES)
    checks.check_shape("v", v, (batch, kv_len, num_kv_heads, head_dim), f"{KV_AXES}, as k")
    for name, tensor in (("k", k), ("v", v)):
        checks.check_same(name, tensor, "q", q)
    checks.check_heads(num_qo_heads, num_kv_heads)
    if kv_lens is not None:
        checks.check_kv_lens(kv_lens, q, batch, kv_len, "the length of k")
    planned = checks.check_plan(num_splits, max_kv_len, total_kv_len, batch, kv_len, "the length of k")
    return DecodeShape(batch, qo_len, num_qo_heads, num_kv_heads, head_dim, planned, dtype, total_kv_len=total_kv_len)
