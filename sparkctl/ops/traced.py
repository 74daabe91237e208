"""The operators as torch.compile traces them: the same arguments, handed to the registered forms.

Each function is traced, not run: it may only do what the tracer understands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sparkctl.ops import torch_library as torch_library  # the import registers the operators
from sparkctl.ops.workspace import Workspace


def decode(q: Tensor, k: Tensor, v: Tensor, *, kv_lens: Tensor | None = None, **options: Any) -> Any:
    """sparkctl.ops.decode while torch.compile traces."""
    operators = torch.ops.sparkctl
    return _attention(operators.decode, operators.decode_out, (q, k, v, kv_lens), options)


def paged_decode(
    q: Tensor, k_pages: Tensor, v_pages: Tensor, page_table: Tensor, kv_lens: Tensor, **options: Any
) -> Any:
    """sparkctl.ops.paged_decode while torch.compile traces."""
    operators = torch.ops.sparkctl
    inputs = (q, k_pages, v_pages, page_table, kv_lens)
    return _attention(operators.paged_decode, operators.paged_decode_out, inputs, options)


def prefill(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Any:
    """sparkctl.ops.prefill while torch.compile traces."""
    operators = torch.ops.sparkctl
    return _attention(operators.prefill, operators.prefill_out, (q, k, v), options)


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
    parts = (part_acc, part_max, part_sum)
    if out is None and lse is None:
        merged: tuple[Tensor, Tensor] = torch.ops.sparkctl.combine(*parts, dtype=dtype, sinks=sinks, backend=backend)
        return merged
    rows = part_acc.shape[:3]
    out = torch.empty((*rows, part_acc.shape[4]), dtype=dtype, device=part_acc.device) if out is None else out
    lse = torch.empty(rows, dtype=torch.float32, device=part_acc.device) if lse is None else lse
    torch.ops.sparkctl.combine_out(*parts, dtype=dtype, sinks=sinks, backend=backend, out=out, lse=lse)
    return out, lse


def _attention(functional: Any, into: Any, inputs: tuple[Tensor | None, ...], options: dict[str, Any]) -> Any:
    """One of the attention operators; what the caller gives to be written to decides the form."""
    _refuse(
        library=options.pop("library", None), flags=options.pop("flags", None), explain=options.pop("explain", False)
    )
    out: Tensor | None = options.pop("out", None)
    lse: Tensor | None = options.pop("lse", None)
    workspace: Workspace | None = options.pop("workspace", None)
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


def _refuse(**objects: Any) -> None:
    for name, value in objects.items():
        if value:
            raise ValueError(f"{name} is given, accepted under torch.compile is none: call outside of what is compiled")
