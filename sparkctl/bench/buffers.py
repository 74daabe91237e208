"""The memory that calls rotate among, so that each call finds its K and V in DRAM and not in L2."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from sparkctl.bench.axes import ELEMENT_BYTES, DecodeCase
from sparkctl.bench.call_options import PLAIN, CallOptions
from sparkctl.bench.device import CudaDevice
from sparkctl.bench.traffic import TABLE_ENTRY_BYTES, decode_traffic
from sparkctl.errors import UsageError, WorkFailed

if TYPE_CHECKING:
    import torch

COLD_L2_FACTOR = 2  # the slots together exceed this many times the L2
MAX_SLOTS = 8192  # calls in one graph; more would measure the graph
MEMORY_SHARE = 0.9  # of what is free, that a case may take: peers, graphs and the reference need some too
SPARE_PAGES = 8  # one page in so many of a pool holds no key of the case
# What holds no key of a batch of several lengths: large, so that an output shows a key that was read, but no NaN, which
# libraries multiply with a weight of 0 behind the end of a sequence.
WRONG_KEY = 1000.0
_ALIGN = 256  # bytes, as cudaMalloc aligns


@dataclass(frozen=True, slots=True)
class SlotLayout:
    """One slot: K, V, q and what pages need behind each other, then as many bytes as out has. Byte offsets.

    Reading the first `size` bytes moves the same bytes as the case. Nothing writes to a slot; outputs are elsewhere.
    """

    k: int
    v: int
    q: int
    table: int  # int32 [batch, pages] where paged
    lens: int  # int32 [batch] where a call gets lengths
    size: int
    kv_bytes: int  # of K alone, pages that hold no key of the case among them
    q_bytes: int
    num_pages: int  # of the pool; 0 where contiguous
    room: int  # bytes to allocate


@dataclass(frozen=True, slots=True)
class Slots:
    """Distinct inputs of one case. Lists have one tensor per slot."""

    layout: SlotLayout
    raw: list[torch.Tensor]  # uint8 [layout.size]
    q: list[torch.Tensor]  # [batch, qo_len, num_qo_heads, head_dim]
    k: list[torch.Tensor]  # [batch, room, num_kv_heads, head_dim] or [num_pages, page_size, num_kv_heads, head_dim]
    v: list[torch.Tensor]
    out: list[torch.Tensor]  # as q
    table: list[torch.Tensor]  # int32 [batch, pages]; empty where contiguous
    kv_lens: list[torch.Tensor]  # int32 [batch]; empty where all have the length of K

    @property
    def count(self) -> int:
        return len(self.raw)

    def inputs(self, slot: int) -> tuple[torch.Tensor | None, ...]:
        """What an entry point takes before its outputs."""
        qkv = (self.q[slot], self.k[slot], self.v[slot])
        lens = self.kv_lens[slot] if self.kv_lens else None
        return (*qkv, self.table[slot], lens) if self.table else (*qkv, lens)

    def packed_inputs(self, slot: int) -> tuple[torch.Tensor | None, ...]:
        """What the entry point of prefill takes ahead of qo_len: q, k, v, table, lengths, and no packed rows."""
        q, k, v, *table, lens = self.inputs(slot)
        return q, k, v, table[0] if table else None, lens, None, None

    def keys(self, case: DecodeCase, slot: int) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V [batch, kv_len, num_kv_heads, head_dim], each sequence's own keys first; copies of pages."""
        if not self.table:
            return self.k[slot][:, : case.kv_len], self.v[slot][:, : case.kv_len]
        ids = self.table[slot].long()
        k, v = (pages[ids].flatten(1, 2)[:, : case.kv_len] for pages in (self.k[slot], self.v[slot]))
        return k, v


def plan_slot(case: DecodeCase) -> SlotLayout:
    """Offsets of one slot, each aligned to 256 bytes."""
    traffic = decode_traffic(case)
    rows, num_pages = case.batch * case.room, 0
    if case.page_size is not None:
        num_pages = case.total_pages + max(1, case.total_pages // SPARE_PAGES)
        rows = num_pages * case.page_size
    half = rows * case.heads.num_kv_heads * case.head_dim * ELEMENT_BYTES
    v = _aligned(half)
    q = v + _aligned(half)
    table = q + _aligned(traffic.q_bytes)
    lens = table + TABLE_ENTRY_BYTES * case.batch * case.pages
    end = lens + (TABLE_ENTRY_BYTES * case.batch if case.has_lengths else 0)
    room = _aligned(end) + _aligned(traffic.out_bytes)
    size = min(room, _aligned(traffic.bytes)) if case.has_lengths else room
    return SlotLayout(0, v, q, table, lens, size, half, traffic.q_bytes, num_pages, room)


def count_slots(case: DecodeCase, l2_bytes: int, options: Sequence[CallOptions] = (PLAIN,)) -> int:
    """Slots of which every call reads more than twice the L2 in all, two at least; one for a hot L2.

    UsageError when a slot is so small that more than MAX_SLOTS would be needed.
    """
    if case.l2 == "hot":
        return 1
    each = (decode_traffic(case, one) for one in options)
    read = min(traffic.kv_bytes + traffic.q_bytes + traffic.table_bytes for traffic in each)
    count = max(2, COLD_L2_FACTOR * l2_bytes // max(1, read) + 1)
    if count > MAX_SLOTS:
        raise UsageError(
            f"{case.label}: {read} bytes a call are too few to be cold: {count} buffers would be needed to exceed "
            f"twice the L2, at most {MAX_SLOTS} are used",
            hint="a longer --seq or a larger --batch, or --l2 hot",
        )
    return count


def format_bytes(count: int) -> str:
    """`17.2 GB`, in powers of 1000 as bandwidths are."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 1000)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def check_room(case: DecodeCase, count: int, free_bytes: int, device: str) -> None:
    """WorkFailed when so many slots, and what is gathered for the reference, do not fit."""
    layout = plan_slot(case)
    row_bytes = case.heads.num_kv_heads * case.head_dim * ELEMENT_BYTES
    checked = 0 if case.page_size is None else 2 * case.batch * case.kv_len * row_bytes  # gathered for the reference
    needed, allowed = count * layout.room + checked, int(MEMORY_SHARE * free_bytes)
    if needed > allowed:
        gathered = f" + {format_bytes(checked)} to check outputs" if checked else ""
        raise WorkFailed(
            f"{case.label} needs {format_bytes(needed)} ({count} × {format_bytes(layout.room)}{gathered}); "
            f"{format_bytes(free_bytes)} are free on {device}, of which {MEMORY_SHARE:.0%} may be taken: "
            f"{format_bytes(allowed)}",
            hint="a smaller --batch, shorter keys, or a device with more memory free",
        )


def allocate_slots(case: DecodeCase, count: int, *, device: str, seed: int = 0, free_bytes: int | None = None) -> Slots:
    """Inputs drawn from N(0,1), different in every slot, outputs NaN. WorkFailed when the device has no room.

    A CUDA device is asked how much is free unless `free_bytes` says it.
    """
    import torch

    if free_bytes is None and device != "cpu":
        free_bytes = CudaDevice(device).free_bytes()
    if free_bytes is not None:
        check_room(case, count, free_bytes, device)
    layout = plan_slot(case)
    dtype = torch_dtype(case.dtype)
    generator = torch.Generator(device=device).manual_seed(seed)
    whole = [torch.empty(layout.room, dtype=torch.uint8, device=device) for _ in range(count)]
    for slot in whole:
        slot.view(dtype).normal_(generator=generator)
    rows = (case.heads.num_kv_heads, case.head_dim)
    kv_shape = (case.batch, case.room, *rows) if case.page_size is None else (layout.num_pages, case.page_size, *rows)
    q_shape = (case.batch, case.qo_len, case.heads.num_qo_heads, case.head_dim)
    slots = Slots(
        layout=layout,
        raw=[slot[: layout.size] for slot in whole],
        q=[_view(slot, layout.q, q_shape, dtype) for slot in whole],
        k=[_view(slot, layout.k, kv_shape, dtype) for slot in whole],
        v=[_view(slot, layout.v, kv_shape, dtype) for slot in whole],
        out=[torch.full(q_shape, math.nan, dtype=dtype, device=device) for _ in whole],
        table=[],
        kv_lens=[],
    )
    if case.page_size is not None:
        return _with_tables(case, slots, whole, generator)
    return slots if case.kv_lens is None else _with_lengths(case, slots, whole)


def _with_lengths(case: DecodeCase, slots: Slots, whole: list[torch.Tensor]) -> Slots:
    """Contiguous keys of several lengths; behind the end of each is WRONG_KEY."""
    for keys in (*slots.k, *slots.v):
        for b, length in enumerate(case.lengths):
            keys[b, length:] = WRONG_KEY
    return replace(slots, kv_lens=[_write_lengths(case, slots.layout, slot) for slot in whole])


def _write_lengths(case: DecodeCase, layout: SlotLayout, slot: torch.Tensor) -> torch.Tensor:
    import torch

    kv_lens = _view(slot, layout.lens, (case.batch,), torch.int32)
    kv_lens.copy_(torch.tensor(case.lengths, dtype=torch.int32))
    return kv_lens


def _with_tables(case: DecodeCase, slots: Slots, whole: list[torch.Tensor], generator: torch.Generator) -> Slots:
    """Every slot's keys in pages drawn at random from its pool; what no key of the case fills is NaN.

    Of several lengths it is WRONG_KEY, and what a table has behind a sequence's last page is a page of that.
    """
    import torch

    assert case.page_size is not None
    unused = math.nan if case.kv_lens is None else WRONG_KEY
    counts = [-(-length // case.page_size) for length in case.lengths]
    tables = []
    for index, slot in enumerate(whole):
        order = torch.randperm(slots.layout.num_pages, generator=generator, device=slot.device)
        table = _view(slot, slots.layout.table, (case.batch, case.pages), torch.int32)
        table.copy_(_rows_of_pages(order, counts))
        for pages in (slots.k[index], slots.v[index]):
            pages[order[sum(counts) :]] = unused
            for b, length in enumerate(case.lengths):
                if tail := length % case.page_size:
                    pages[table[b, counts[b] - 1].long(), tail:] = unused
        tables.append(table)
    return replace(slots, table=tables, kv_lens=[_write_lengths(case, slots.layout, slot) for slot in whole])


def _rows_of_pages(order: torch.Tensor, counts: Sequence[int]) -> torch.Tensor:
    """[batch, most pages]: to each sequence the next pages in order, behind them one that no sequence has."""
    ends = list(accumulate(counts))
    table = order[ends[-1]].repeat(len(counts), max(counts))
    for b, (end, count) in enumerate(zip(ends, counts, strict=True)):
        table[b, :count] = order[end - count : end]
    return table


def torch_dtype(name: str) -> torch.dtype:
    """`bf16` -> torch.bfloat16."""
    import torch

    return {"bf16": torch.bfloat16, "fp16": torch.float16}[name]


def xor_words(raw: torch.Tensor) -> int:
    """XOR of all 32-bit words of a tensor, as an unsigned number: what the read kernels' checksums must add up to."""
    import torch

    words: Any = raw.reshape(-1).view(torch.int32)
    while words.numel() > 1:
        half = words.numel() // 2
        folded = words[:half] ^ words[half : 2 * half]
        if words.numel() % 2:
            folded = torch.cat((folded, words[-1:]))
        words = folded
    return int(words[0].item()) & 0xFFFFFFFF if words.numel() else 0


def _view(raw: torch.Tensor, offset: int, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return raw[offset : offset + math.prod(shape) * dtype.itemsize].view(dtype).view(shape)


def _aligned(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN
