"""The memory that calls rotate among, so that each call finds its K and V in DRAM and not in L2."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sparkctl.bench.axes import ELEMENT_BYTES, DecodeCase
from sparkctl.bench.device import CudaDevice
from sparkctl.bench.traffic import TABLE_ENTRY_BYTES, decode_traffic
from sparkctl.errors import UsageError, WorkFailed

if TYPE_CHECKING:
    import torch

COLD_L2_FACTOR = 2  # the slots together exceed this many times the L2
MAX_SLOTS = 8192  # calls in one graph; more would measure the graph
SPARE_PAGES = 8  # one page in so many of a pool holds no key of the case
_ALIGN = 256  # bytes, as cudaMalloc aligns


@dataclass(frozen=True, slots=True)
class SlotLayout:
    """One slot: K, V, q and what pages need behind each other, then as many bytes as out has. Byte offsets.

    Reading the first `size` bytes moves the same bytes as the case. Nothing writes to a slot; outputs are elsewhere.
    """

    k: int
    v: int
    q: int
    table: int  # int32 [batch, pages], then int32 [batch]; nothing where contiguous
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
    k: list[torch.Tensor]  # [batch, kv_len, num_kv_heads, head_dim] or [num_pages, page_size, num_kv_heads, head_dim]
    v: list[torch.Tensor]
    out: list[torch.Tensor]  # as q
    table: list[torch.Tensor]  # int32 [batch, pages]; empty where contiguous
    kv_lens: list[torch.Tensor]  # int32 [batch]; empty where contiguous

    @property
    def count(self) -> int:
        return len(self.raw)

    def inputs(self, slot: int) -> tuple[torch.Tensor | None, ...]:
        """What an entry point takes before its outputs."""
        qkv = (self.q[slot], self.k[slot], self.v[slot])
        return (*qkv, self.table[slot], self.kv_lens[slot]) if self.table else (*qkv, None)

    def keys(self, case: DecodeCase, slot: int) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V [batch, kv_len, num_kv_heads, head_dim]; copies where they lie in pages."""
        if not self.table:
            return self.k[slot], self.v[slot]
        ids = self.table[slot].long()
        k, v = (pages[ids].flatten(1, 2)[:, : case.kv_len] for pages in (self.k[slot], self.v[slot]))
        return k, v


def plan_slot(case: DecodeCase) -> SlotLayout:
    """Offsets of one slot, each aligned to 256 bytes."""
    traffic = decode_traffic(case)
    half, num_pages = traffic.kv_bytes // 2, 0
    if case.page_size is not None:
        needed = case.batch * case.pages
        num_pages = needed + max(1, needed // SPARE_PAGES)
        half = num_pages * case.page_size * case.heads.num_kv_heads * case.head_dim * ELEMENT_BYTES
    v = _aligned(half)
    q = v + _aligned(half)
    table = q + _aligned(traffic.q_bytes)
    room = table + _aligned(traffic.table_bytes) + _aligned(traffic.out_bytes)
    size = room if case.page_size is None else min(room, _aligned(traffic.bytes))
    return SlotLayout(0, v, q, table, size, half, traffic.q_bytes, num_pages, room)


def count_slots(case: DecodeCase, l2_bytes: int) -> int:
    """Slots whose K, V and q exceed twice the L2, two at least; one for a hot L2.

    UsageError when a slot is so small that more than MAX_SLOTS would be needed.
    """
    if case.l2 == "hot":
        return 1
    traffic = decode_traffic(case)
    read = traffic.kv_bytes + traffic.q_bytes + traffic.table_bytes
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
    checked = 0 if case.page_size is None else decode_traffic(case).kv_bytes  # pages gathered for the reference
    if count * layout.room + checked > 0.9 * free_bytes:
        needed, free = format_bytes(layout.room), format_bytes(free_bytes)
        raise WorkFailed(
            f"{case.label} needs {count} × {needed}, {free} are free on {device}",
            hint="a smaller --batch or a shorter --seq",
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
    kv_shape = (case.batch, case.kv_len, *rows) if case.page_size is None else (layout.num_pages, case.page_size, *rows)
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
    return slots if case.page_size is None else _with_tables(case, slots, whole, generator)


def _with_tables(case: DecodeCase, slots: Slots, whole: list[torch.Tensor], generator: torch.Generator) -> Slots:
    """Every slot's keys in pages drawn at random from its pool; what no key of the case fills is NaN."""
    import torch

    assert case.page_size is not None
    lens_at = slots.layout.table + TABLE_ENTRY_BYTES * case.batch * case.pages
    tables, lens = [], []
    for index, slot in enumerate(whole):
        order = torch.randperm(slots.layout.num_pages, generator=generator, device=slot.device)
        table = _view(slot, slots.layout.table, (case.batch, case.pages), torch.int32)
        table.copy_(order[: table.numel()].view(table.shape))
        kv_lens = _view(slot, lens_at, (case.batch,), torch.int32)
        kv_lens.fill_(case.kv_len)
        for pages in (slots.k[index], slots.v[index]):
            pages[order[table.numel() :]] = math.nan
            if tail := case.kv_len % case.page_size:
                last: Any = table[:, -1].long()
                pages[last, tail:] = math.nan
        tables.append(table)
        lens.append(kv_lens)
    return replace(slots, table=tables, kv_lens=lens)


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
