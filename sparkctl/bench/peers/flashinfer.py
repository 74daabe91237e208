"""FlashInfer: its fa2 kernels on tensor cores, its decode on CUDA cores, and XQA. All of them take pages.

Contiguous K and V are pages of the same memory, in order. Everything is planned before the first call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from sparkctl.bench.axes import DecodeCase
from sparkctl.bench.buffers import Slots
from sparkctl.bench.peers.attempt import Call, NotApplicableError, find_fault, load_module, try_arm
from sparkctl.bench.peers.base import PeerArm

if TYPE_CHECKING:
    import torch

PACKAGE = "flashinfer-python"
LAYOUT = "NHD"  # [num_pages, page_size, num_kv_heads, head_dim], as the slots hold them
WORKSPACE_BYTES = 256 << 20  # twice what its documentation recommends
PAGE_SIZES = (64, 32, 16, 8, 4, 2, 1)  # for contiguous keys; its planner divides them by 128 keys or less all the same
XQA_PAGE_SIZES = (128, 64, 32, 16)  # all that it has
MAX_WRAPPERS = 256  # each has 8 MiB of its own on the device and on the host


@dataclass(frozen=True, slots=True)
class Pages:
    """K and V of every slot as pages, and the tables: one for all slots where the keys are contiguous."""

    size: int
    k: Sequence[torch.Tensor]  # [num_pages, size, num_kv_heads, head_dim]
    v: Sequence[torch.Tensor]
    tables: Sequence[torch.Tensor]  # int32 [batch, pages]

    def table(self, slot: int) -> int:
        """Which of the tables is the slot's."""
        return slot if len(self.tables) > 1 else 0


def flashinfer_arms(case: DecodeCase, slots: Slots) -> tuple[PeerArm, ...]:
    """Three arms, the last two of which decode one query position; of prefill two. One arm with the reason if it cannot
    be imported."""
    fault = find_fault("flashinfer", PACKAGE)
    if fault is not None:
        return (PeerArm("FlashInfer", None, fault),)
    if case.prefill:
        return (
            try_arm("FlashInfer fa2", lambda: _tensor_core_call(case, slots), slots),
            try_arm("FlashInfer fa3", lambda: _prefill_call(case, slots, "fa3"), slots),
        )
    return (
        try_arm("FlashInfer fa2", lambda: _tensor_core_call(case, slots), slots),
        try_arm("FlashInfer CUDA", lambda: _cuda_core_call(case, slots), slots),
        try_arm("FlashInfer XQA", lambda: _xqa_call(case, slots), slots),
    )


def as_pages(case: DecodeCase, slots: Slots, sizes: Sequence[int]) -> Pages:
    """The slots' own pages, or contiguous keys in the largest of `sizes` that divides their number: views, no copies.

    NotApplicableError where none does.
    """
    import torch

    if case.page_size is not None:
        return Pages(case.page_size, slots.k, slots.v, slots.table)
    size = next((size for size in sizes if case.room % size == 0), None)
    if size is None:
        wanted = ", ".join(map(str, sorted(sizes)[:-1]))
        raise NotApplicableError(f"takes pages only, of {wanted} or {max(sizes)} keys, and none divides {case.room}")
    shape = (-1, size, case.heads.num_kv_heads, case.head_dim)
    count = case.batch * case.room // size
    table = torch.arange(count, dtype=torch.int32, device=slots.q[0].device).view(case.batch, -1)
    return Pages(size, [k.view(shape) for k in slots.k], [v.view(shape) for v in slots.v], [table])


def _tensor_core_call(case: DecodeCase, slots: Slots) -> Call:
    """For several query positions the same kernels are behind the prefill wrapper."""
    library = load_module("flashinfer", PACKAGE)
    pages = as_pages(case, slots, PAGE_SIZES)
    workspace = _workspace(slots)
    if case.qo_len == 1 and not case.prefill:
        make = library.BatchDecodeWithPagedKVCacheWrapper
        return _wrapped_call(
            case, slots, pages, lambda: make(workspace, LAYOUT, use_tensor_cores=True, backend="fa2"), _plan_decode
        )
    return _prefill_call(case, slots, "fa2")


def _prefill_call(case: DecodeCase, slots: Slots, backend: str) -> Call:
    library = load_module("flashinfer", PACKAGE)
    pages = as_pages(case, slots, PAGE_SIZES)
    workspace = _workspace(slots)
    prefill = library.BatchPrefillWithPagedKVCacheWrapper
    return _wrapped_call(case, slots, pages, lambda: prefill(workspace, LAYOUT, backend=backend), _plan_prefill)


def _cuda_core_call(case: DecodeCase, slots: Slots) -> Call:
    library = load_module("flashinfer", PACKAGE)
    _need_one_position(case)
    workspace = _workspace(slots)
    make = library.BatchDecodeWithPagedKVCacheWrapper
    return _wrapped_call(
        case,
        slots,
        as_pages(case, slots, PAGE_SIZES),
        lambda: make(workspace, LAYOUT, use_tensor_cores=False),
        _plan_decode,
    )


def _xqa_call(case: DecodeCase, slots: Slots) -> Call:
    decode = load_module("flashinfer.decode", PACKAGE).xqa_batch_decode_with_kv_cache
    import torch

    _need_one_position(case)
    pages = as_pages(case, slots, XQA_PAGE_SIZES)
    workspace = _workspace(slots)
    outs = _rows(slots.q, case, fresh=True)
    rows = _rows(slots.q, case)
    lens = torch.tensor(case.lengths, dtype=torch.int32).to(slots.q[0].device).view(torch.uint32)
    scales = {"bmm1_scale": case.head_dim**-0.5, "bmm2_scale": 1.0}

    def call(slot: int) -> torch.Tensor:
        keys, table = (pages.k[slot], pages.v[slot]), pages.tables[pages.table(slot)]
        decode(rows[slot], keys, workspace, table, lens, case.kv_len, kv_layout=LAYOUT, out=outs[slot], **scales)
        return outs[slot].view(slots.q[slot].shape)

    return call


def _wrapped_call(
    case: DecodeCase,
    slots: Slots,
    pages: Pages,
    make: Callable[[], Any],
    plan: Callable[[Any, DecodeCase, Pages, torch.Tensor], None],
) -> Call:
    """A wrapper keeps the table that it was planned with, so there is one for each table."""
    if len(pages.tables) > MAX_WRAPPERS:
        raise NotApplicableError(f"{len(pages.tables)} slots need as many plans, at most {MAX_WRAPPERS} are made")
    wrappers = [make() for _ in pages.tables]
    for wrapper, table in zip(wrappers, pages.tables, strict=True):
        plan(wrapper, case, pages, table)
    rows, outs = _rows(slots.q, case), _rows(slots.q, case, fresh=True)

    def call(slot: int) -> torch.Tensor:
        wrapper = wrappers[pages.table(slot)]
        wrapper.run(rows[slot], (pages.k[slot], pages.v[slot]), out=outs[slot])
        return outs[slot].view(slots.q[slot].shape)

    return call


def _plan_decode(wrapper: Any, case: DecodeCase, pages: Pages, table: torch.Tensor) -> None:
    heads = (case.heads.num_qo_heads, case.heads.num_kv_heads)
    kind = pages.k[0].dtype
    wrapper.plan(
        *_extents(case, pages, table),
        *heads,
        case.head_dim,
        pages.size,
        q_data_type=kind,
        kv_data_type=kind,
        sm_scale=case.head_dim**-0.5,
    )


def _plan_prefill(wrapper: Any, case: DecodeCase, pages: Pages, table: torch.Tensor) -> None:
    import torch

    heads = (case.heads.num_qo_heads, case.heads.num_kv_heads)
    kind = pages.k[0].dtype
    wrapper.plan(
        torch.arange(case.batch + 1, dtype=torch.int32) * case.qo_len,
        *_extents(case, pages, table),
        *heads,
        case.head_dim,
        pages.size,
        causal=case.causal,  # to the bottom right
        sm_scale=case.head_dim**-0.5,
        q_data_type=kind,
        kv_data_type=kind,
    )


def _extents(case: DecodeCase, pages: Pages, table: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """indptr and last_page_len on the host, where it plans; the page ids stay where they are."""
    import torch

    counts = [-(-length // pages.size) for length in case.lengths]
    last = [length - (count - 1) * pages.size for length, count in zip(case.lengths, counts, strict=True)]
    rows = [table[b, :count] for b, count in enumerate(counts)]
    ids = table.view(-1) if table.numel() == sum(counts) else torch.cat(rows)
    return (
        torch.tensor([0, *accumulate(counts)], dtype=torch.int32),
        ids,
        torch.tensor(last, dtype=torch.int32),
    )


def _rows(tensors: Sequence[torch.Tensor], case: DecodeCase, *, fresh: bool = False) -> list[torch.Tensor]:
    """As [batch * qo_len, num_qo_heads, head_dim]; fresh: memory of the same shape."""
    import torch

    shape = (case.batch * case.qo_len, case.heads.num_qo_heads, case.head_dim)
    return [torch.empty_like(t).view(shape) if fresh else t.view(shape) for t in tensors]


def _workspace(slots: Slots) -> torch.Tensor:
    """It wants zeros before the first use."""
    import torch

    return torch.zeros(WORKSPACE_BYTES, dtype=torch.uint8, device=slots.q[0].device)


def _need_one_position(case: DecodeCase) -> None:
    if case.qo_len > 1:
        raise NotApplicableError("it decodes one query position a sequence")
