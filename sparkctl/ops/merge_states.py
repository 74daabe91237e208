"""The merge_states operator: merges normalised results over disjoint keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sparkctl.ops import checks
from sparkctl.ops.call import OperatorBackend, choose_library, merging_variant
from sparkctl.ops.fallback import merge_torch
from sparkctl.ops.overlap import check_apart, same_place
from sparkctl.ops.tracing import under_compile
from sparkctl.runtime import Library

if TYPE_CHECKING:
    import torch

STATE_AXES = "[num_states, batch, qo_len, num_qo_heads, head_dim]"
STATE_LSE_AXES = "[num_states, batch, qo_len, num_qo_heads]"


@under_compile
def merge_states(
    out: torch.Tensor | Sequence[torch.Tensor],
    lse: torch.Tensor | Sequence[torch.Tensor],
    *,
    out_: torch.Tensor | None = None,
    lse_: torch.Tensor | None = None,
    backend: OperatorBackend = "auto",
    library: Library | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Merge the results of several attention calls of the same queries over disjoint keys into one (out, lse).

    out [num_states, batch, qo_len, num_qo_heads, head_dim], bf16 or fp16, any strides whose last is 1 and whose rows
    start at multiples of 16 bytes; lse float32 [num_states, batch, qo_len, num_qo_heads] in natural log, each state
    contiguous. Sequences of tensors are accepted for both and stacked, which copies them. A state whose lse is -inf
    weighs nothing and its out is not read; where every state's is, out is 0 and lse -inf.

    The result goes to `out_` [batch, qo_len, num_qo_heads, head_dim] and `lse_` [batch, qo_len, num_qo_heads] where
    they are given; they may be one of the states (out_=out[0], lse_=lse[0] merges in place), and have no memory in
    common with any other. `backend` is as in
    `decode`. Raises TypeError and ValueError naming the argument.
    """
    import torch

    out, lse = _stacked("out", out), _stacked("lse", lse)
    dtype = _check(out, lse)
    given = (out_, lse_)
    shape = tuple(out.shape[1:])
    if out_ is None:
        out_ = torch.empty(shape, dtype=out.dtype, device=out.device)
    else:
        checks.check_output("out_", out_, shape, out.dtype, out.device)
    if lse_ is None:
        lse_ = torch.empty(shape[:3], dtype=torch.float32, device=out.device)
    else:
        checks.check_output("lse_", lse_, shape[:3], torch.float32, out.device)
    _check_memory(out, lse, *given)
    library = choose_library("out", out, backend, library)
    if library is None:
        merged, merged_lse = merge_torch(out, lse)
        return out_.copy_(merged), lse_.copy_(merged_lse)
    name = merging_variant(library, "attn_merge_states", dtype, shape[3])
    library.function("merge_states")(library.index[name], out, lse, out_, lse_)
    return out_, lse_


def _stacked(name: str, states: Any) -> torch.Tensor:
    """One tensor of all states."""
    import torch

    if isinstance(states, torch.Tensor):
        return states
    if not isinstance(states, list | tuple) or not states:
        raise TypeError(f"{name} is {type(states).__name__}, accepted are torch.Tensor and a sequence of them")
    for i, state in enumerate(states):
        checks.check_tensor(f"{name}[{i}]", state)
        checks.check_shape(f"{name}[{i}]", state, tuple(states[0].shape), f"that of {name}[0]")
        checks.check_same(f"{name}[{i}]", state, f"{name}[0]", states[0])
    return torch.stack(list(states))


def _check_memory(out: torch.Tensor, lse: torch.Tensor, out_: torch.Tensor | None, lse_: torch.Tensor | None) -> None:
    """ValueError where a result shares memory with the states but is none of them, or with the other result."""
    check_apart([("out_", out_)], [("lse", lse), ("lse_", lse_)])
    check_apart([("lse_", lse_)], [("out", out)])
    for name, result, states_name, states in (("out_", out_, "out", out), ("lse_", lse_, "lse", lse)):
        if result is None:
            continue
        others = [(f"{states_name}[{i}]", state) for i, state in enumerate(states) if not same_place(result, state)]
        check_apart([(name, result)], others)


def _check(out: torch.Tensor, lse: torch.Tensor) -> str:
    """The dtype in the registry's words."""
    checks.check_tensor("out", out)
    checks.check_rank("out", out, 5, STATE_AXES)
    dtype = checks.check_dtype("out", out)
    if out.shape[0] < 1:
        raise ValueError("num_states is 0, accepted is 1 or more")
    if out.shape[4] < 1:
        raise ValueError("head_dim is 0, accepted is 1 or more")
    checks.check_tensor("lse", lse)
    checks.check_shape("lse", lse, tuple(out.shape[:4]), STATE_LSE_AXES)
    if str(lse.dtype) != "torch.float32":
        raise TypeError(f"lse has dtype {lse.dtype}, accepted is torch.float32")
    if lse.device != out.device:
        raise ValueError(f"lse is on {lse.device}, accepted is the device of out: {out.device}")
    return dtype
