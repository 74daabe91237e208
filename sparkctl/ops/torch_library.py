"""The operators as torch knows them, `torch.ops.sparkctl.*`: schemas, CPU and CUDA implementations, shapes for tracing.

Importing this module registers them; it alone imports torch when it is imported. Each operator has two forms: one
that returns new tensors, and one called `_out` that writes into given ones. Without `return_lse` the first form's
second result is empty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from sparkctl.ops.checks import check_gradient
from sparkctl.ops.combine import combine
from sparkctl.ops.decode import decode
from sparkctl.ops.merge_states import merge_states
from sparkctl.ops.paged_decode import paged_decode
from sparkctl.ops.prefill import prefill
from sparkctl.ops.workspace import Workspace

SCORES = (
    "float? scale=None, bool causal=False, SymInt? window=None, float? softcap=None, Tensor? sinks=None, "
    "Tensor? mask=None"
)
# kernel_name, since torch's inductor has a use of its own for an argument called kernel.
CHOICE = "str kernel_name='auto', str? variant=None, str backend='auto'"
SPLIT = f"{SCORES}, SymInt? num_splits=None, SymInt? max_kv_len=None, SymInt? total_kv_len=None, {CHOICE}"
OUTPUTS = "Tensor(a!) out, Tensor(b!)? lse=None"
PARTIALS = "Tensor(c!)? part_acc=None, Tensor(d!)? part_max=None, Tensor(e!)? part_sum=None"
DECODE = f"Tensor q, Tensor k, Tensor v, Tensor? kv_lens=None, *, {SPLIT}"
PAGED_DECODE = f"Tensor q, Tensor k_pages, Tensor v_pages, Tensor page_table, Tensor kv_lens, *, {SPLIT}"
PREFILL = (
    "Tensor q, Tensor k, Tensor v, *, Tensor? page_table=None, Tensor? kv_lens=None, Tensor? qo_indptr=None, "
    f"Tensor? kv_indptr=None, SymInt? max_qo_len=None, {SCORES}, {CHOICE}"
)
STATES = "Tensor out, Tensor lse, *, str backend='auto'"
PARTS = "Tensor part_acc, Tensor part_max, Tensor part_sum, *, ScalarType dtype, Tensor? sinks=None, str backend='auto'"

# The kernels ask for a last stride of 1 and rows at multiples of 16 bytes: what compiles may not move tensors around.
TAGS = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides)

_library = torch.library.Library("sparkctl", "DEF")  # type: ignore[no-untyped-call]


def _register(schema: str, implementation: Callable[..., Any], fake: Callable[..., Any]) -> None:
    _library.define(schema, tags=TAGS)  # type: ignore[no-untyped-call]
    name = schema.partition("(")[0]
    for key in ("CPU", "CUDA"):
        _library.impl(name, implementation, key)  # type: ignore[no-untyped-call]
    operator = getattr(torch.ops.sparkctl, name).default
    _library.impl(name, _without_gradients(operator), "Autograd", with_keyset=True)  # type: ignore[no-untyped-call]
    torch.library.register_fake(f"sparkctl::{name}", fake, lib=_library)


def _without_gradients(operator: torch._ops.OpOverload) -> Callable[..., Any]:
    """The operator's place in autograd: an error where a gradient would be lost, else what lies below."""
    names = [argument.name for argument in operator._schema.arguments]

    def run(keys: Any, *args: Any, **kwargs: Any) -> Any:
        for name, value in (*zip(names, args, strict=False), *kwargs.items()):
            if isinstance(value, Tensor):
                check_gradient(name, value)
        return operator.redispatch(keys & torch._C._after_autograd_keyset, *args, **kwargs)

    return run


def _attention(operator: Callable[..., Any]) -> Callable[..., tuple[Tensor, Tensor]]:
    def run(
        q: Tensor, *inputs: Any, return_lse: bool = False, kernel_name: str = "auto", **options: Any
    ) -> tuple[Tensor, Tensor]:
        result = operator(q, *inputs, return_lse=return_lse, kernel=kernel_name, **options)
        return result if return_lse else (result, q.new_empty(0, dtype=torch.float32))

    return run


def _split_into(operator: Callable[..., Any]) -> Callable[..., None]:
    def run(
        *inputs: Any,
        part_acc: Tensor | None = None,
        part_max: Tensor | None = None,
        part_sum: Tensor | None = None,
        kernel_name: str = "auto",
        **options: Any,
    ) -> None:
        workspace = None
        if part_acc is not None and part_max is not None and part_sum is not None:
            workspace = Workspace(part_acc, part_max, part_sum)
        operator(*inputs, workspace=workspace, kernel=kernel_name, **options)

    return run


def _fake_attention(q: Tensor, *inputs: Any, return_lse: bool = False, **options: Any) -> tuple[Tensor, Tensor]:
    rows = q.shape[:-1] if return_lse else (0,)
    return torch.empty(q.shape, dtype=q.dtype, device=q.device), q.new_empty(rows, dtype=torch.float32)


def _decode(q: Tensor, k: Tensor, v: Tensor, kv_lens: Tensor | None = None, **options: Any) -> Any:
    return decode(q, k, v, kv_lens=kv_lens, **options)


def _prefill_out(*inputs: Tensor, kernel_name: str = "auto", **options: Any) -> None:
    prefill(*inputs, kernel=kernel_name, **options)


def _merge_states_out(out: Tensor, lse: Tensor, **options: Any) -> None:
    merge_states(out, lse, **options)


def _fake_merge_states(out: Tensor, lse: Tensor, *, backend: str = "auto") -> tuple[Tensor, Tensor]:
    shape = out.shape[1:]
    return (
        torch.empty(shape, dtype=out.dtype, device=out.device),
        torch.empty(shape[:3], dtype=torch.float32, device=out.device),
    )


def _combine_out(*parts: Tensor, **options: Any) -> None:
    combine(*parts, **options)


def _fake_combine(
    part_acc: Tensor,
    part_max: Tensor,
    part_sum: Tensor,
    *,
    dtype: torch.dtype,
    sinks: Tensor | None = None,
    backend: str = "auto",
) -> tuple[Tensor, Tensor]:
    rows = part_acc.shape[:3]
    return (
        torch.empty((*rows, part_acc.shape[4]), dtype=dtype, device=part_acc.device),
        torch.empty(rows, dtype=torch.float32, device=part_acc.device),
    )


def _fake_nothing(*inputs: Any, **options: Any) -> None:
    return None


for _name, _arguments, _operator in (("decode", DECODE, _decode), ("paged_decode", PAGED_DECODE, paged_decode)):
    _register(
        f"{_name}({_arguments}, bool return_lse=False) -> (Tensor, Tensor)", _attention(_operator), _fake_attention
    )
    _register(f"{_name}_out({_arguments}, {OUTPUTS}, {PARTIALS}) -> ()", _split_into(_operator), _fake_nothing)

_register(f"prefill({PREFILL}, bool return_lse=False) -> (Tensor, Tensor)", _attention(prefill), _fake_attention)
_register(f"prefill_out({PREFILL}, {OUTPUTS}) -> ()", _prefill_out, _fake_nothing)
_register(f"merge_states({STATES}) -> (Tensor, Tensor)", merge_states, _fake_merge_states)
_register(f"merge_states_out({STATES}, Tensor(a!) out_, Tensor(b!) lse_) -> ()", _merge_states_out, _fake_nothing)
_register(f"combine({PARTS}) -> (Tensor, Tensor)", combine, _fake_combine)
_register(f"combine_out({PARTS}, Tensor(a!) out, Tensor(b!) lse) -> ()", _combine_out, _fake_nothing)
