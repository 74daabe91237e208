"""The operators as torch.compile traces them: the same arguments, handed to the registered forms.

Each function is traced, not run: it may only do what the tracer understands. What the registered forms could not see
is checked here: types that a schema would convert, and gradients, which compiled code hides from what it calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sparkctl.ops import checks
from sparkctl.ops import torch_library as torch_library  # the import registers the operators
from sparkctl.ops.options import LONGEST
from sparkctl.ops.workspace import Workspace


def decode(q: Tensor, k: Tensor, v: Tensor, *, kv_lens: Tensor | None = None, **options: Any) -> Any:
    """sparkctl.ops.decode while torch.compile traces."""
    operators = torch.ops.sparkctl
    names = ("q", "k", "v", "kv_lens")
    return _attention(operators.decode, operators.decode_out, names, (q, k, v, kv_lens), options)


def paged_decode(
    q: Tensor, k_pages: Tensor, v_pages: Tensor, page_table: Tensor, kv_lens: Tensor, **options: Any
) -> Any:
    """sparkctl.ops.paged_decode while torch.compile traces."""
    operators = torch.ops.sparkctl
    inputs = (q, k_pages, v_pages, page_table, kv_lens)
    names = ("q", "k_pages", "v_pages", "page_table", "kv_lens")
    return _attention(operators.paged_decode, operators.paged_decode_out, names, inputs, options)


def prefill(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Any:
    """sparkctl.ops.prefill while torch.compile traces."""
    operators = torch.ops.sparkctl
    return _attention(operators.prefill, operators.prefill_out, ("q", "k", "v"), (q, k, v), options)


def merge_states(
    out: Tensor | Sequence[Tensor],
    lse: Tensor | Sequence[Tensor],
    *,
    out_: Tensor | None = None,
    lse_: Tensor | None = None,
    backend: str = "auto",
    library: Any = None,
) -> tuple[Tensor, Tensor]:
    """sparkctl.ops.merge_states while torch.compile traces."""
    _refuse(library=library)
    _check_gradients(out_=out_, lse_=lse_)
    for name, states in (("out", out), ("lse", lse)):
        for state in [states] if isinstance(states, Tensor) else states:
            _check_gradients(**{name: state})
    out = out if isinstance(out, Tensor) else torch.stack(list(out))
    lse = lse if isinstance(lse, Tensor) else torch.stack(list(lse))
    if out_ is None and lse_ is None:
        merged: tuple[Tensor, Tensor] = torch.ops.sparkctl.merge_states(out, lse, backend=backend)
        return merged
    out_ = torch.empty(out.shape[1:], dtype=out.dtype, device=out.device) if out_ is None else out_
    lse_ = torch.empty(lse.shape[1:], dtype=lse.dtype, device=lse.device) if lse_ is None else lse_
    torch.ops.sparkctl.merge_states_out(out, lse, backend=backend, out_=out_, lse_=lse_)
    return out_, lse_


def combine(
    part_acc: Tensor,
    part_max: Tensor,
    part_sum: Tensor,
    *,
    dtype: torch.dtype,
    sinks: Tensor | None = None,
    out: Tensor | None = None,
    lse: Tensor | None = None,
    backend: str = "auto",
    library: Any = None,
) -> tuple[Tensor, Tensor]:
    """sparkctl.ops.combine while torch.compile traces."""
    _refuse(library=library)
    _check_gradients(part_acc=part_acc, part_max=part_max, part_sum=part_sum, sinks=sinks, out=out, lse=lse)
    parts = (part_acc, part_max, part_sum)
    if out is None and lse is None:
        merged: tuple[Tensor, Tensor] = torch.ops.sparkctl.combine(*parts, dtype=dtype, sinks=sinks, backend=backend)
        return merged
    rows = part_acc.shape[:3]
    out = torch.empty((*rows, part_acc.shape[4]), dtype=dtype, device=part_acc.device) if out is None else out
    lse = torch.empty(rows, dtype=torch.float32, device=part_acc.device) if lse is None else lse
    torch.ops.sparkctl.combine_out(*parts, dtype=dtype, sinks=sinks, backend=backend, out=out, lse=lse)
    return out, lse


def _attention(
    functional: Any, into: Any, names: tuple[str, ...], inputs: tuple[Tensor | None, ...], options: dict[str, Any]
) -> Any:
    """One of the attention operators; what the caller gives to be written to decides the form."""
    _check_types(options)
    _refuse(
        library=options.pop("library", None), flags=options.pop("flags", None), explain=options.pop("explain", False)
    )
    _check_gradients(**dict(zip(names, inputs, strict=True)), **options)
    out: Tensor | None = options.pop("out", None)
    lse: Tensor | None = options.pop("lse", None)
    workspace: Workspace | None = options.pop("workspace", None)
    _check_workspace(workspace)
    return_lse = options.pop("return_lse", False)
    options["kernel_name"] = options.pop("kernel", "auto")
    if out is None and lse is None and workspace is None:
        result, its_lse = functional(*inputs, return_lse=return_lse, **options)
        return (result, its_lse) if return_lse else result
    q = inputs[0]
    assert q is not None
    if out is None:
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if lse is None and return_lse:
        lse = torch.empty(q.shape[:-1], dtype=torch.float32, device=q.device)
    if workspace is not None:
        options |= {"part_acc": workspace.part_acc, "part_max": workspace.part_max, "part_sum": workspace.part_sum}
    into(*inputs, out=out, lse=lse, **options)
    return out if lse is None else (out, lse)


def _check_types(options: dict[str, Any]) -> None:
    """What schemas convert, where an operator called directly refuses. A window past int64 is cut as the operator's."""
    for name in ("causal", "return_lse", "explain"):
        checks.check_bool(name, options.get(name, False))
    for name in ("window", "num_splits", "max_kv_len", "total_kv_len", "max_qo_len"):
        checks.check_int(name, options.get(name))
    for name in ("scale", "softcap"):
        if options.get(name) is not None:
            checks.check_float(name, options[name])
    window = options.get("window")
    if window is not None and window > LONGEST:
        options["window"] = LONGEST


def _check_workspace(workspace: Any) -> None:
    if workspace is None:
        return
    if not isinstance(workspace, Workspace):
        raise TypeError(f"workspace is {type(workspace).__name__}, accepted is sparkctl.ops.Workspace")
    for name in ("part_acc", "part_max", "part_sum"):
        checks.check_tensor(f"workspace.{name}", getattr(workspace, name))


def _check_gradients(**values: Any) -> None:
    for name, value in values.items():
        if isinstance(value, Tensor):
            checks.check_gradient(name, value)


def _refuse(**objects: Any) -> None:
    for name, value in objects.items():
        if value:
            raise ValueError(f"{name} is given, accepted under torch.compile is none: call outside of what is compiled")
