"""Calls of the operators that differ in one thing: what accuracy holds against fp64 and against each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from sparkctl import ops
from sparkctl.ops.call import OperatorBackend
from sparkctl.runtime import Library

if TYPE_CHECKING:
    from torch import Tensor

Operator = Literal["decode", "paged_decode", "prefill"]


@dataclass(frozen=True, slots=True)
class AttentionArm:
    """One way to call attention. Without a variant the operator chooses, among those of `kernel` that are built."""

    label: str
    operator: Operator
    paged: bool = False
    kernel: str = "auto"
    variant: str | None = None
    num_splits: int | None = None
    flags: Mapping[str, str] = field(default_factory=dict)
    library: str = ""  # the label of a library of its own; empty: the one of all

    @property
    def is_decode(self) -> bool:
        return self.operator != "prefill"


@dataclass(frozen=True, slots=True)
class Bench:
    """Where arms run: a library, and the backend and page size of its calls."""

    library: Library
    backend: OperatorBackend
    page_size: int = 16


def attend(
    arm: AttentionArm,
    bench: Bench,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    kv_lens: Tensor | None = None,
    **more: Any,
) -> Tensor:
    """Causal attention, bottom-right: q `[batch, qo_len, heads, head_dim]`, k and v `[batch, kv_len, kv heads,
    head_dim]` -> out shaped as q. Pages are made of k and v here, in a shuffled order.

    With `more`, options of the operators, they say everything: it is causal only if they do.
    """
    options: dict[str, Any] = {
        **(more or {"causal": True}),
        "kernel": arm.kernel,
        "variant": arm.variant,
        "library": bench.library,
        "backend": bench.backend,
    }
    if arm.is_decode:
        options |= {"num_splits": arm.num_splits, "flags": arm.flags or None}
    if not arm.paged:
        operator = ops.decode if arm.is_decode else ops.prefill
        result: Tensor = operator(q, k, v, kv_lens=kv_lens, **options)
        return result
    k_pages, v_pages, table = to_pages(k, v, bench.page_size)
    lens = full_lengths(k) if kv_lens is None else kv_lens
    if arm.is_decode:
        return ops.paged_decode(q, k_pages, v_pages, table, lens, **options)  # type: ignore[no-any-return]
    return ops.prefill(q, k_pages, v_pages, page_table=table, kv_lens=lens, **options)  # type: ignore[no-any-return]


def full_lengths(k: Tensor) -> Tensor:
    """int32 [batch], all of them k's."""
    import torch

    return torch.full((k.shape[0],), k.shape[1], dtype=torch.int32, device=k.device)


def to_pages(k: Tensor, v: Tensor, page_size: int) -> tuple[Tensor, Tensor, Tensor]:
    """(k_pages, v_pages, page_table int32 [batch, pages]); pages lie in another order than the sequences need them.

    The rest of a sequence's last page is NaN.
    """
    import torch

    batch, kv_len = k.shape[:2]
    pages = max(1, -(-kv_len // page_size))
    generator = torch.Generator().manual_seed(batch * pages)
    order = torch.randperm(batch * pages, generator=generator)
    table = order.view(batch, pages).to(device=k.device, dtype=torch.int32)
    filled = []
    for tensor in (k, v):
        whole = tensor.new_full((batch, pages * page_size, *tensor.shape[2:]), float("nan"))
        whole[:, :kv_len] = tensor
        pool = torch.empty_like(whole).view(batch * pages, page_size, *tensor.shape[2:])
        pool[table.flatten().long()] = whole.view(batch * pages, page_size, *tensor.shape[2:])
        filled.append(pool)
    return filled[0], filled[1], table
