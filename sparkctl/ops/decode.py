"""The decode operator: checks, plan, one call into the library (or the torch fallback)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparkctl.ops import checks
from sparkctl.ops.call import PLAIN_TORCH, OperatorBackend, choose_call, hand_over, run_call
from sparkctl.ops.fallback import decode_torch
from sparkctl.ops.plan import DecodeShape
from sparkctl.ops.workspace import Workspace
from sparkctl.runtime import Library

if TYPE_CHECKING:
    import torch

KV_AXES = "[batch, kv_len, num_kv_heads, head_dim]"


def decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    kv_lens: torch.Tensor | None = None,
    scale: float | None = None,
    causal: bool = False,
    num_splits: int | None = None,
    max_kv_len: int | None = None,
    out: torch.Tensor | None = None,
    return_lse: bool = False,
    workspace: Workspace | None = None,
    kernel: str = "auto",
    variant: str | None = None,
    backend: OperatorBackend = "auto",
    library: Library | None = None,
    explain: bool = False,
) -> Any:
    """Attention of a few new query positions over a contiguous K/V cache, split along kv.

    q [batch, qo_len, num_qo_heads, head_dim]; k, v [batch, kv_len, num_kv_heads, head_dim]; bf16 or fp16, any strides
    whose last is 1 and whose rows start at multiples of 16 bytes. kv_lens int32 [batch] on the same device gives ragged
    lengths. `causal` is bottom-right aligned: query i sees keys <= kv_len - qo_len + i. `scale` defaults to
    1/sqrt(head_dim). A row with no visible key gets out 0 and lse -inf.

    num_splits None plans the splits for `max_kv_len` (default: k's length); the real lengths are read on the device, so
    a captured graph replays at any length. `kernel` and `variant` force a choice; `backend` "auto" runs the library for
    CUDA tensors and plain torch for CPU tensors, "emulator" the CPU emulator's library.

    Returns out, or (out, lse) with lse float32 [batch, qo_len, num_qo_heads] in natural log. With `explain` nothing
    runs and the DecodePlan is returned. Raises TypeError and ValueError naming the argument, MissingTool when no
    library is built for the device.
    """
    shape = _check(q, k, v, kv_lens, out, max_kv_len, num_splits)
    scale = shape.head_dim**-0.5 if scale is None else float(scale)
    call = choose_call(q, shape, "decode", kernel, variant, backend, library, num_splits, workspace)
    if explain:
        return call.plan if call is not None else PLAIN_TORCH
    if call is not None:
        return run_call(call, (q, k, v, kv_lens), out, return_lse, workspace, scale=scale, causal=causal)
    result, lse = decode_torch(q, k, v, kv_lens=kv_lens, scale=scale, causal=causal)
    return hand_over(result, lse, out, return_lse)


def _check(
    q: Any, k: Any, v: Any, kv_lens: Any, out: Any, max_kv_len: int | None, num_splits: int | None
) -> DecodeShape:
    dtype = checks.check_query(q, out)
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
        checks.check_kv_lens(kv_lens, q, kv_len, "the length of k")
    planned = checks.check_plan(num_splits, max_kv_len, kv_len, "the length of k")
    return DecodeShape(batch, qo_len, num_qo_heads, num_kv_heads, head_dim, planned, dtype)
