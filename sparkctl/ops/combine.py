"""The combine operator: merges the splits' partial outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkctl.ops import checks
from sparkctl.ops.call import OperatorBackend, choose_library, combine_variant
from sparkctl.ops.choices import check_memory
from sparkctl.ops.fallback import combine_torch
from sparkctl.ops.options import check_sinks
from sparkctl.ops.tracing import under_compile
from sparkctl.runtime import Library

if TYPE_CHECKING:
    import torch


@under_compile
def combine(
    part_acc: torch.Tensor,
    part_max: torch.Tensor,
    part_sum: torch.Tensor,
    *,
    dtype: torch.dtype,
    sinks: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    backend: OperatorBackend = "auto",
    library: Library | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Merge un-normalised partials into (out, lse).

    part_acc fp32 [batch, qo_len, num_qo_heads, num_splits, head_dim] holds sums of exp2(s - part_max) * v, part_max
    and part_sum fp32 [batch, qo_len, num_qo_heads, num_splits] the maximum of s = score * scale * log2(e) and the sum
    of exp2(s - part_max). A split with sum 0 weighs nothing and its accumulator is not read. out has `dtype` (bf16 or
    fp16) and shape [batch, qo_len, num_qo_heads, head_dim]; lse is fp32, natural log, -inf where every split is empty.
    sinks fp32 [num_qo_heads] adds one logit to the denominator of each row of a head. `out` and `lse` are written in
    place where they are given, in memory that no other argument has. `backend` is as in `decode`.
    """
    import torch

    if dtype not in (torch.bfloat16, torch.float16):
        raise TypeError(f"dtype is {dtype!r}, accepted are torch.bfloat16 and torch.float16")
    for name, tensor in (("part_acc", part_acc), ("part_max", part_max), ("part_sum", part_sum)):
        checks.check_tensor(name, tensor)
    checks.check_rank("part_acc", part_acc, 5, "[batch, qo_len, num_qo_heads, num_splits, head_dim]")
    if part_acc.dtype != torch.float32:
        raise TypeError(f"part_acc has dtype {part_acc.dtype}, accepted is torch.float32")
    rows = part_acc.shape[:3]
    for name, tensor in (("part_max", part_max), ("part_sum", part_sum)):
        checks.check_shape(name, tensor, part_acc.shape[:4], "[batch, qo_len, num_qo_heads, num_splits]")
        checks.check_same(name, tensor, "part_acc", part_acc)
    if not 1 <= part_acc.shape[3] < 2**31:
        raise ValueError(f"num_splits is {part_acc.shape[3]}, accepted is 1 to {2**31 - 1}")
    if sinks is not None:
        check_sinks(sinks, rows[2], part_acc, "part_acc")
    given = (out, lse)
    out_shape = (*rows, part_acc.shape[4])
    if out is None:
        out = torch.empty(out_shape, dtype=dtype, device=part_acc.device)
    else:
        checks.check_output("out", out, out_shape, dtype, part_acc.device)
    if lse is None:
        lse = torch.empty(rows, dtype=torch.float32, device=part_acc.device)
    else:
        checks.check_output("lse", lse, rows, torch.float32, part_acc.device)
    parts = (("part_acc", part_acc), ("part_max", part_max), ("part_sum", part_sum), ("sinks", sinks))
    check_memory(parts, *given)
    library = choose_library("part_acc", part_acc, backend, library)
    if library is None:
        merged, merged_lse = combine_torch(part_acc, part_max, part_sum, sinks=sinks, dtype=dtype)
        return out.copy_(merged), lse.copy_(merged_lse)
    name = combine_variant(library, checks.check_dtype("out", out), out_shape[3])
    library.function("combine")(library.index[name], part_acc, part_max, part_sum, out, lse, sinks)
    return out, lse
