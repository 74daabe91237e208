"""torch.nn.attention.flex_attention, compiled for the shape at hand."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sparkctl.bench.axes import DecodeCase
from sparkctl.bench.buffers import Slots
from sparkctl.bench.peers.attempt import Call, NotApplicableError, load_module, try_arm
from sparkctl.bench.peers.base import PeerArm

if TYPE_CHECKING:
    import torch

NAME = "flex"
MODE = "max-autotune-no-cudagraphs"  # the graph is ours


def flex_arms(case: DecodeCase, slots: Slots) -> tuple[PeerArm, ...]:
    """One arm. Compiling and tuning takes seconds to minutes, before anything is timed."""
    return (try_arm(NAME, lambda: _prepare(case, slots), slots),)


def _prepare(case: DecodeCase, slots: Slots) -> Call:
    if case.page_size is not None:
        raise NotApplicableError("not applicable, it takes no page table")
    if case.kv_lens is not None:
        raise NotApplicableError("not applicable, it takes no lengths, only a mask made for each batch of them")
    flex = load_module("torch.nn.attention.flex_attention", "torch")
    import torch

    forget: Callable[[], None] = torch.compiler.reset
    forget()  # after a few shapes of one function torch stops compiling it
    attend: Any = torch.compile(flex.flex_attention, fullgraph=True, dynamic=False, mode=MODE)
    options: dict[str, Any] = {
        "scale": case.head_dim**-0.5,
        "enable_gqa": case.group > 1,
        "block_mask": _causal_mask(flex, case, slots) if case.causal and case.qo_len > 1 else None,
    }
    views = [
        (q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        for q, k, v in zip(slots.q, slots.k, slots.v, strict=True)
    ]

    def call(slot: int) -> torch.Tensor:
        out: torch.Tensor = attend(*views[slot], **options)
        return out.transpose(1, 2)

    with contextlib.redirect_stderr(io.StringIO()):  # it reports what it tried
        call(0)
    return call


def _causal_mask(flex: Any, case: DecodeCase, slots: Slots) -> Any:
    """To the bottom right; the same for every sequence and head."""
    behind = case.kv_len - case.qo_len

    def may_see(batch: Any, head: Any, query: Any, key: Any) -> Any:
        return query + behind >= key

    return flex.create_block_mask(may_see, None, None, case.qo_len, case.kv_len, device=str(slots.q[0].device))
