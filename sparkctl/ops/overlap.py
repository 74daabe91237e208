"""Which tensors share memory: what an operator writes must be apart from what it reads, by address ranges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

Named = Sequence[tuple[str, "torch.Tensor | None"]]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a tensor's elements lie, in bytes; axes are (size, stride) of those with more than one element."""

    first: int
    item: int
    axes: tuple[tuple[int, int], ...]

    @property
    def end(self) -> int:
        """One past the last byte."""
        return self.first + self.item + sum((size - 1) * stride for size, stride in self.axes)


def layout_of(tensor: torch.Tensor) -> Layout | None:
    """None for a tensor without elements or without memory."""
    if tensor.numel() == 0 or tensor.device.type == "meta":
        return None
    item = tensor.element_size()
    axes = tuple((n, s * item) for n, s in zip(tensor.shape, tensor.stride(), strict=True) if n > 1)
    return Layout(tensor.data_ptr(), item, axes)


def check_no_overlap(name: str, tensor: torch.Tensor) -> None:
    """ValueError unless every element of a tensor that is written to has memory of its own."""
    if tensor.is_contiguous():
        return
    reach = 1  # elements that the axes so far cover
    for stride, size in sorted((s, n) for n, s in zip(tensor.shape, tensor.stride(), strict=True) if n > 1):
        if stride < reach and tensor.numel():
            raise ValueError(f"{name} has elements that share memory, accepted is a tensor without overlap")
        reach += stride * (size - 1)


def check_apart(written: Named, read: Named) -> None:
    """ValueError where a tensor that is written to shares memory with one that is read, or with another of its kind."""
    outputs = _placed(written)
    inputs = _placed(read)
    for i, (name, layout) in enumerate(outputs):
        for other_name, other in (*inputs, *outputs[i + 1 :]):
            if overlap(layout, other):
                raise ValueError(f"{name} shares memory with {other_name}, accepted is memory of its own")


def overlap(a: Layout, b: Layout) -> bool:
    """Whether two tensors may share a byte. True also where their rows are interleaved in a way that is not seen
    through: a stride that divides both must leave each its own part of the period, as slices of one tensor have it.
    """
    if a.end <= b.first or b.end <= a.first:
        return False
    periods = {stride for _, stride in (*a.axes, *b.axes) if stride > 0}
    return not any(_apart_in(period, a, b) for period in periods)


def same_place(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of one shape have each element at the same address."""
    return layout_of(a) == layout_of(b)


def _placed(tensors: Named) -> list[tuple[str, Layout]]:
    found: Iterator[tuple[str, Layout | None]] = (
        (name, layout_of(tensor)) for name, tensor in tensors if tensor is not None
    )
    return [(name, layout) for name, layout in found if layout is not None]


def _apart_in(period: int, a: Layout, b: Layout) -> bool:
    """Whether the addresses modulo a period prove that no byte is shared."""
    lengths = [x.item + sum((n - 1) * s for n, s in x.axes if s % period) for x in (a, b)]
    gap = (b.first - a.first) % period  # from a's part to b's
    return lengths[0] <= gap and lengths[1] <= period - gap
