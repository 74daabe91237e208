"""The decode operator: checks, plan, one call into the library (or the torch fallback)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sparkctl.ops import checks
from sparkctl.ops.devices import EMULATED_SM_COUNT, default_library, sm_count
from sparkctl.ops.fallback import decode_torch, say_once
from sparkctl.ops.plan import DecodePlan, DecodeShape, accepted, choose_variant, plan_decode
from sparkctl.ops.workspace import Workspace, allocate_workspace
from sparkctl.runtime import BuiltVariant, Library

if TYPE_CHECKING:
    import torch

OperatorBackend = Literal["auto", "cuda", "emulator", "torch"]
Q_AXES = "[batch, qo_len, num_qo_heads, head_dim]"
KV_AXES = "[batch, kv_len, num_kv_heads, head_dim]"


@dataclass(frozen=True, slots=True)
class DecodeCall:
    """A planned call: what to run, from which library."""

    library: Library
    plan: DecodePlan

    def run(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        kv_lens: torch.Tensor | None,
        out: torch.Tensor,
        lse: torch.Tensor | None,
        workspace: Workspace,
        *,
        scale: float,
        causal: bool,
    ) -> None:
        """Launch on the current stream; every tensor is checked on the C++ side."""
        index = self.library.index
        self.library.function("decode")(
            index[self.plan.variant],
            index[self.plan.combine_variant],
            q,
            k,
            v,
            kv_lens,
            out,
            lse,
            workspace.part_acc,
            workspace.part_max,
            workspace.part_sum,
            scale,
            causal,
        )


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
    call = _choose(q, shape, kernel, variant, backend, library, num_splits, workspace)
    if explain:
        return call.plan if call is not None else "torch: plain torch operators"
    if call is None:
        return _run_torch(q, k, v, kv_lens, scale, causal, out, return_lse)

    import torch

    if out is None:
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device) if return_lse else None
    workspace = workspace or allocate_workspace(q, call.plan.num_splits)
    call.run(q, k, v, kv_lens, out, lse, workspace, scale=scale, causal=causal)
    return (out, lse) if return_lse else out


def plan_call(
    library: Library,
    shape: DecodeShape,
    *,
    kernel: str = "auto",
    variant: str | None = None,
    num_splits: int | None = None,
    device_sm_count: int = EMULATED_SM_COUNT,
) -> DecodeCall | None:
    """The call for a shape on a library; None when the library has no variant that accepts it.

    Raises ValueError when a forced variant does not accept the shape.
    """
    if variant is None:
        chosen = choose_variant(library.manifest.variants, shape, kernel=kernel)
    else:
        chosen = library.variant(variant)
        if not accepted(chosen, shape):
            raise ValueError(f"variant {variant} does not accept {shape}; it accepts {_ranges(chosen)}")
    if chosen is None:
        return None
    combine = combine_variant(library, shape.dtype, shape.head_dim)
    plan = plan_decode(shape, chosen, combine, sm_count=device_sm_count, num_splits=num_splits)
    return DecodeCall(library, plan)


def combine_variant(library: Library, dtype: str, head_dim: int) -> str:
    """The name of the combine variant for a dtype and head_dim; SparkctlError naming the build command if missing."""
    name = f"attn_combine.{dtype}.d{head_dim}"
    return library.variant(name).name


def _check(
    q: Any, k: Any, v: Any, kv_lens: Any, out: Any, max_kv_len: int | None, num_splits: int | None
) -> DecodeShape:
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        checks.check_tensor(name, tensor)
    checks.check_rank("q", q, 4, Q_AXES)
    checks.check_rank("k", k, 4, KV_AXES)
    dtype = checks.check_dtype("q", q)
    batch, qo_len, num_qo_heads, head_dim = q.shape
    kv_len, num_kv_heads = k.shape[1], k.shape[2]
    checks.check_shape("k", k, (batch, kv_len, num_kv_heads, head_dim), KV_AXES)
    checks.check_shape("v", v, (batch, kv_len, num_kv_heads, head_dim), f"{KV_AXES}, as k")
    for name, tensor in (("k", k), ("v", v)):
        checks.check_same(name, tensor, "q", q)
    if num_kv_heads < 1 or num_qo_heads < 1 or num_qo_heads % num_kv_heads:
        raise ValueError(f"num_qo_heads is {num_qo_heads}, accepted is a multiple of num_kv_heads ({num_kv_heads})")
    if kv_lens is not None:
        checks.check_tensor("kv_lens", kv_lens)
        checks.check_shape("kv_lens", kv_lens, (batch,), "[batch]")
        if str(kv_lens.dtype) != "torch.int32":
            raise TypeError(f"kv_lens has dtype {kv_lens.dtype}, accepted is torch.int32")
        if kv_lens.device != q.device:
            raise ValueError(f"kv_lens is on {kv_lens.device}, accepted is the device of q: {q.device}")
        if kv_lens.device.type == "cpu" and batch and not 0 <= int(kv_lens.min()) <= int(kv_lens.max()) <= kv_len:
            raise ValueError(f"kv_lens is {kv_lens.tolist()}, accepted is 0 to {kv_len}, the length of k")
    if out is not None:
        checks.check_tensor("out", out)
        checks.check_shape("out", out, tuple(q.shape), "as q")
        checks.check_same("out", out, "q", q)
    if num_splits is not None and num_splits < 1:
        raise ValueError(f"num_splits is {num_splits}, accepted is 1 or more")
    if max_kv_len is not None and not 0 <= max_kv_len <= kv_len:
        raise ValueError(f"max_kv_len is {max_kv_len}, accepted is 0 to {kv_len}, the length of k")
    planned = kv_len if max_kv_len is None else max_kv_len
    return DecodeShape(batch, qo_len, num_qo_heads, num_kv_heads, head_dim, planned, dtype)


def _choose(
    q: torch.Tensor,
    shape: DecodeShape,
    kernel: str,
    variant: str | None,
    backend: OperatorBackend,
    library: Library | None,
    num_splits: int | None,
    workspace: Workspace | None,
) -> DecodeCall | None:
    if workspace is not None:
        if num_splits is not None and num_splits != workspace.num_splits:
            raise ValueError(f"num_splits is {num_splits}, accepted is the workspace's: {workspace.num_splits}")
        num_splits = workspace.num_splits
    forced = backend in ("cuda", "emulator") or library is not None or variant is not None or kernel != "auto"
    if backend == "torch" or (not forced and q.device.type != "cuda"):
        return None
    wanted = "cuda" if q.device.type == "cuda" else "emulator"
    if backend in ("cuda", "emulator") and backend != wanted:
        raise ValueError(f"q is on {q.device}, which backend '{backend}' does not accept")
    if library is None:
        library = default_library(str(q.device))
    call = plan_call(
        library, shape, kernel=kernel, variant=variant, num_splits=num_splits, device_sm_count=sm_count(str(q.device))
    )
    if call is not None:
        return call
    reason = _no_variant(library, shape, kernel)
    if forced:
        raise ValueError(reason)
    say_once(f"sparkctl.ops.decode runs plain torch: {reason}")
    return None


def _no_variant(library: Library, shape: DecodeShape, kernel: str) -> str:
    candidates = [v for v in library.manifest.variants if v.family == "decode" and kernel in ("auto", v.kernel)]
    dims = sorted({int(v.values["head_dim"]) for v in candidates})
    if shape.head_dim not in dims:
        built = ", ".join(map(str, dims)) or "none: no decode kernel is built"
        return f"head_dim is {shape.head_dim}, accepted are {built}"
    ranges = _ranges(candidates[0])
    return f"no variant accepts group {shape.group}, qo_len {shape.qo_len}, dtype {shape.dtype}; accepted are {ranges}"


def _ranges(variant: BuiltVariant) -> str:
    axes = ", ".join(f"{name} {value}" for name, value in variant.values.items())
    spans = ", ".join(f"{name} {a} to {'any' if b is None else b}" for name, (a, b) in variant.accepts.items())
    return f"{axes}, {spans}"


def _run_torch(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    kv_lens: torch.Tensor | None,
    scale: float,
    causal: bool,
    out: torch.Tensor | None,
    return_lse: bool,
) -> Any:
    result, lse = decode_torch(q, k, v, kv_lens=kv_lens, scale=scale, causal=causal)
    if out is not None:
        out.copy_(result)
        result = out
    return (result, lse) if return_lse else result
