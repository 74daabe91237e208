"""torch.nn.functional.scaled_dot_product_attention, each of its backends on its own."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sparkctl.bench.axes import DecodeCase
from sparkctl.bench.buffers import Slots
from sparkctl.bench.peers.attempt import Call, NotApplicableError, one_line, reason_of, try_arm
from sparkctl.bench.peers.base import PeerArm

if TYPE_CHECKING:
    import torch

# name -> member of torch.nn.attention.SDPBackend
BACKENDS = {"SDPA cuDNN": "CUDNN_ATTENTION", "SDPA flash": "FLASH_ATTENTION"}
EFFICIENT = "SDPA efficient"


def sdpa_arms(case: DecodeCase, slots: Slots) -> tuple[PeerArm, ...]:
    """One arm per backend that divides the keys among blocks."""
    return tuple(
        _backend_arm(name, case, slots, partial(_grouped_call, case, slots, backend))
        for name, backend in BACKENDS.items()
    )


def efficient_arms(case: DecodeCase, slots: Slots) -> tuple[PeerArm, ...]:
    """The memory-efficient backend. It has no groups and does not divide the keys."""
    return (_backend_arm(EFFICIENT, case, slots, partial(_folded_call, case, slots)),)


def _backend_arm(name: str, case: DecodeCase, slots: Slots, prepare: Callable[[], Call]) -> PeerArm:
    """What torch says against a backend is the reason; it says that in warnings."""

    def checked() -> Call:
        if case.page_size is not None:
            raise NotApplicableError("not applicable, it takes no page table")
        if case.kv_lens is not None:
            raise NotApplicableError("not applicable, it takes no lengths: a mask would have it read every padded key")
        if case.causal and case.qo_len not in (1, case.kv_len):
            raise NotApplicableError("its causal mask is aligned to the top left, not the bottom right")
        call = prepare()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                call(0)
            except RuntimeError as error:
                warned = [str(warning.message) for warning in said]
                raise NotApplicableError(refusal(name, reason_of(error), warned)) from error
        return call

    return try_arm(name, checked, slots)


def _grouped_call(case: DecodeCase, slots: Slots, backend: str) -> Call:
    """SDPA takes [batch, heads, len, head_dim]: views of the very same memory, no copies."""
    attend = _attention_with(backend)
    options = {"is_causal": True} if case.causal and case.qo_len > 1 else {}
    views = [
        (q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        for q, k, v in zip(slots.q, slots.k, slots.v, strict=True)
    ]

    def call(slot: int) -> torch.Tensor:
        q, k, v = views[slot]
        out: torch.Tensor = attend(q, k, v, enable_gqa=q.shape[1] != k.shape[1], **options).transpose(1, 2)
        return out

    return call


def _folded_call(case: DecodeCase, slots: Slots) -> Call:
    """The query heads of a group as query positions of their kv head: a view, and K and V are read once a group."""
    if case.causal and case.qo_len > 1:
        raise NotApplicableError("its queries of a group have one position, which its causal mask does not know")
    if case.group > 1 and case.qo_len > 1:
        raise NotApplicableError("it has no groups of query heads, and those of several positions would be copied")
    attend = _attention_with("EFFICIENT_ATTENTION")
    heads, dim = case.heads.num_kv_heads, case.head_dim
    views = [
        (
            q.view(case.batch, heads, case.group, dim) if case.group > 1 else q.transpose(1, 2),
            k.transpose(1, 2),
            v.transpose(1, 2),
        )
        for q, k, v in zip(slots.q, slots.k, slots.v, strict=True)
    ]
    shape = slots.q[0].shape

    def call(slot: int) -> torch.Tensor:
        out: torch.Tensor = attend(*views[slot])
        return out.reshape(shape) if case.group > 1 else out.transpose(1, 2)

    return call


def _attention_with(backend: str) -> Callable[..., Any]:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    chosen = getattr(SDPBackend, backend)

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: Any) -> Any:
        with sdpa_kernel(chosen):
            return scaled_dot_product_attention(q, k, v, **options)

    return attend


def refusal(name: str, error: str, warned: list[str]) -> str:
    """One line: torch warns `<Backend> … not used because:` and, as the next warning, why.

    That is taken before the error, which only says that no backend is left.
    """
    keyword = name.split()[-1].lower()
    for header, reason in pairwise(warned):
        if keyword in header.lower() and "not used because" in header:
            return one_line(reason)
    return one_line(error) or "it failed without a message"
