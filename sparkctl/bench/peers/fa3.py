"""FlashAttention-3, forward only, as the package fa3_fwd carries it (Hopper)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparkctl.bench.axes import DecodeCase
from sparkctl.bench.buffers import Slots
from sparkctl.bench.peers.attempt import Call, load_module, try_arm
from sparkctl.bench.peers.base import PeerArm

if TYPE_CHECKING:
    import torch

NAME = "FA3"


def fa3_arms(case: DecodeCase, slots: Slots) -> tuple[PeerArm, ...]:
    """Its entry for decoding, with as many splits as its own heuristic wants; over pages where the case has them."""
    return (try_arm(NAME, lambda: _prepare(case, slots), slots),)


def _prepare(case: DecodeCase, slots: Slots) -> Call:
    library = load_module("fa3_fwd_interface", "fa3_fwd")
    if case.prefill and not slots.kv_lens and hasattr(library, "flash_attn_func"):
        return _whole_call(case, slots, library.flash_attn_func)
    attend = library.flash_attn_with_kvcache
    options: dict[str, Any] = {"softmax_scale": case.head_dim**-0.5, "causal": case.causal, "num_splits": 0}

    def call(slot: int) -> torch.Tensor:
        q, k, v = slots.q[slot], slots.k[slot], slots.v[slot]
        # lengths cost it a launch of its own, and contiguous keys of one length need none
        lens = {"cache_seqlens": slots.kv_lens[slot]} if slots.kv_lens else {}
        pages = {"page_table": slots.table[slot]} if slots.table else {}
        out: torch.Tensor = attend(q, k, v, **lens, **pages, **options)
        return out

    return call


def _whole_call(case: DecodeCase, slots: Slots, attend: Any) -> Call:
    """Its entry for prefill, which has no cache; some versions return lse too."""

    def call(slot: int) -> torch.Tensor:
        found = attend(
            slots.q[slot], slots.k[slot], slots.v[slot], softmax_scale=case.head_dim**-0.5, causal=case.causal
        )
        out: torch.Tensor = found[0] if isinstance(found, tuple) else found
        return out

    return call
