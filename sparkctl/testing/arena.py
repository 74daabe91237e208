"""Address space for tensors whose offsets pass 2^31 elements, without their memory.

On a CPU the arena is mapped but not backed: only pages that hold values take memory. Tensors start in its middle, so
that an offset that wrapped around in 32 bits reads zeros from the arena instead of crashing.
"""

from __future__ import annotations

import math
import mmap
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

HALF = 2**31  # elements before the tensors: where a wrapped 32-bit offset lands
STRIDE = 2**30 + 64  # elements; twice this passes 2^31 elements, and 2^32 bytes
APART = 2**29  # elements between k and v
LENGTH = HALF + 2 * STRIDE + APART + 2**20
ELEMENT_BYTES = 2
MAP_NORESERVE = 0x4000  # Linux; in Python's mmap from 3.13 on


class Arena:
    """A flat tensor of LENGTH elements."""

    def __init__(self, flat: Tensor) -> None:
        self.flat = flat

    def place(self, k: Tensor, v: Tensor, *, axis: int) -> tuple[Tensor, Tensor]:
        """k and v `[batch, len, heads, head_dim]` with a stride on `axis` so large that index 2 or 1 passes 2^31.

        An axis of three entries has stride 2^30 + 64, one of two entries twice that.
        """
        step = STRIDE if k.shape[axis] > 2 else 2 * STRIDE
        strides = list(k.contiguous().stride())
        strides[axis] = step
        if (k.shape[axis] - 1) * step > 2 * STRIDE:
            raise ValueError(f"axis {axis} of {tuple(k.shape)} is too long for the arena")
        views = [self.flat.as_strided(k.shape, strides, HALF + shift) for shift in (0, APART)]
        for view, values in zip(views, (k, v), strict=True):
            view.copy_(values)
        return views[0], views[1]


@lru_cache(maxsize=2)
def arena_for(dtype: Any, device: str) -> Arena:
    """One arena for each dtype and device. MemoryError where the device has too little memory free."""
    return Arena(device_memory(device).view(dtype))


@lru_cache(maxsize=1)
def device_memory(device: str) -> Tensor:
    import numpy
    import torch

    size = LENGTH * ELEMENT_BYTES
    if device == "cpu":
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
        return torch.from_numpy(numpy.frombuffer(mmap.mmap(-1, size, flags=flags), dtype=numpy.int16))
    free = torch.cuda.mem_get_info(device)[0]
    if free < size + 2**30:
        raise MemoryError(f"{device} has {free / 2**30:.1f} GiB free, the case needs {size / 2**30 + 1:.1f} GiB")
    return torch.full((LENGTH,), math.nan, dtype=torch.bfloat16, device=device).view(torch.int16)
