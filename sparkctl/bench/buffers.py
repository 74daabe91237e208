"""The memory that calls rotate among, so that each call finds its K and V in DRAM and not in L2."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparkctl.bench.axes import ELEMENT_BYTES, DecodeCase
from sparkctl.bench.traffic import decode_traffic
from sparkctl.errors import UsageError, WorkFailed

if TYPE_CHECKING:
    import torch

COLD_L2_FACTOR = 2  # the slots together exceed this many times the L2
MAX_SLOTS = 8192  # calls in one graph; more would measure the graph
_ALIGN = 256  # bytes, as cudaMalloc aligns


@dataclass(frozen=True, slots=True)
class SlotLayout:
    """One slot: K, V and q behind each other, then as many bytes as out has.

    So reading a slot moves the same bytes as the case. Nothing writes to a slot; outputs are elsewhere. Byte offsets.
    """

    k: int
    v: int
    q: int
    size: int
    kv_bytes: int  # of K alone
    q_bytes: int


@dataclass(frozen=True, slots=True)
class Slots:
    """Distinct inputs of one case. Lists have one tensor per slot."""

    layout: SlotLayout
    raw: list[torch.Tensor]  # uint8 [layout.size]
    q: list[torch.Tensor]  # [batch, qo_len, num_qo_heads, head_dim]
    k: list[torch.Tensor]  # [batch, kv_len, num_kv_heads, head_dim]
    v: list[torch.Tensor]
    out: list[torch.Tensor]  # as q

    @property
    def count(self) -> int:
        return len(self.raw)


def plan_slot(case: DecodeCase) -> SlotLayout:
    """Offsets of one slot, each aligned to 256 bytes."""
    traffic = decode_traffic(case)
    half = traffic.kv_bytes // 2
    v = _aligned(half)
    q = v + _aligned(half)
    size = q + _aligned(traffic.q_bytes) + _aligned(traffic.out_bytes)
    return SlotLayout(k=0, v=v, q=q, size=size, kv_bytes=half, q_bytes=traffic.q_bytes)


def count_slots(case: DecodeCase, l2_bytes: int) -> int:
    """Slots whose K, V and q exceed twice the L2, two at least; one for a hot L2.

    UsageError when a slot is so small that more than MAX_SLOTS would be needed.
    """
    if case.l2 == "hot":
        return 1
    traffic = decode_traffic(case)
    read = traffic.kv_bytes + traffic.q_bytes
    count = max(2, COLD_L2_FACTOR * l2_bytes // max(1, read) + 1)
    if count > MAX_SLOTS:
        raise UsageError(
            f"{case.label}: {read} bytes a call are too few to be cold: {count} buffers would be needed to exceed "
            f"twice the L2, at most {MAX_SLOTS} are used",
            hint="a longer --seq or a larger --batch, or --l2 hot",
        )
    return count


def allocate_slots(case: DecodeCase, count: int, *, device: str, seed: int = 0) -> Slots:
    """Inputs drawn from N(0,1), different in every slot, outputs NaN. WorkFailed when the device has no room."""
    import torch

    layout = plan_slot(case)
    dtype = torch_dtype(case.dtype)
    if device != "cpu":
        free = (
            torch.cuda.mem_get_info(device)[0]
            + torch.cuda.memory_reserved(device)
            - torch.cuda.memory_allocated(device)
        )
        if count * layout.size > 0.9 * free:
            raise WorkFailed(
                f"{case.label} needs {count} × {layout.size / 1e9:.2f} GB, {free / 1e9:.2f} GB are free on {device}",
                hint="a smaller --batch or a shorter --seq",
            )
    generator = torch.Generator(device=device).manual_seed(seed)
    raw = [torch.empty(layout.size, dtype=torch.uint8, device=device) for _ in range(count)]
    for slot in raw:
        slot.view(dtype).normal_(generator=generator)
    kv_shape = (case.batch, case.kv_len, case.heads.num_kv_heads, case.head_dim)
    q_shape = (case.batch, case.qo_len, case.heads.num_qo_heads, case.head_dim)
    return Slots(
        layout=layout,
        raw=raw,
        q=[_view(slot, layout.q, q_shape, dtype) for slot in raw],
        k=[_view(slot, layout.k, kv_shape, dtype) for slot in raw],
        v=[_view(slot, layout.v, kv_shape, dtype) for slot in raw],
        out=[torch.full(q_shape, math.nan, dtype=dtype, device=device) for _ in raw],
    )


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
    return raw[offset : offset + math.prod(shape) * ELEMENT_BYTES].view(dtype).view(shape)


def _aligned(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN
