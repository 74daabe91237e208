"""torch.nn.functional.scaled_dot_product_attention, with its cuDNN and its flash backend, each on its own."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sparkctl.bench.axes import DecodeCase
from sparkctl.bench.buffers import Slots
from sparkctl.bench.peers.base import PeerArm

if TYPE_CHECKING:
    import torch

# name -> member of torch.nn.attention.SDPBackend
BACKENDS = {"SDPA cuDNN": "CUDNN_ATTENTION", "SDPA flash": "FLASH_ATTENTION"}


def sdpa_arms(case: DecodeCase, slots: Slots) -> tuple[PeerArm, ...]:
    """One arm per backend; each is tried once here, so that what torch says against it is the reason."""
    if case.page_size is not None:
        return tuple(PeerArm(name, None, "not applicable, it takes no page table") for name in BACKENDS)
    if case.causal and case.qo_len > 1:
        reason = "its causal mask is aligned to the top left, not the bottom right"
        return tuple(PeerArm(name, None, reason) for name in BACKENDS)
    return tuple(_try_arm(name, _backend_call(slots, backend)) for name, backend in BACKENDS.items())


def _backend_call(slots: Slots, backend: str) -> Callable[[int], torch.Tensor]:
    """SDPA takes [batch, heads, len, head_dim]: views of the very same memory, no copies."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    chosen = getattr(SDPBackend, backend)
    views = [
        (q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        for q, k, v in zip(slots.q, slots.k, slots.v, strict=True)
    ]

    def call(slot: int) -> Any:
        q, k, v = views[slot]
        with sdpa_kernel(chosen):
            return scaled_dot_product_attention(q, k, v, enable_gqa=q.shape[1] != k.shape[1]).transpose(1, 2)

    return call


def _try_arm(name: str, call: Callable[[int], torch.Tensor]) -> PeerArm:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            call(0)
        except RuntimeError as error:
            return PeerArm(name, None, refusal(name, str(error), [str(warning.message) for warning in said]))
    return PeerArm(name, call)


def refusal(name: str, error: str, warned: list[str]) -> str:
    """One line: torch warns `<Backend> … not used because:` and, as the next warning, why.

    That is taken before the error, which only says that no backend is left.
    """
    keyword = name.split()[-1].lower()
    for header, reason in pairwise(warned):
        if keyword in header.lower() and "not used because" in header:
            return _first_line(reason)
    return _first_line(error) or "it failed without a message"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0].partition(" (Triggered internally")[0].strip()
