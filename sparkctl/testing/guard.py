"""Outputs full of NaN inside memory full of NaN: what was not written, or written outside, shows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparkctl.testing.inputs import GAP, torch_dtype
from sparkctl.testing.model import Layout

if TYPE_CHECKING:
    from torch import Tensor

MARGIN = 64  # elements of poison before and after; keeps 16-byte alignment


@dataclass(frozen=True, slots=True)
class Guarded:
    """A tensor and the poisoned memory that it is a view of."""

    view: Tensor
    storage: Tensor

    def faults(self) -> Tensor:
        """Elements of the view that still hold NaN less those outside it that do not, as a tensor on the device."""
        return ((~self.storage.isnan()).sum() - self.view.numel()).abs()

    def faults_outside(self) -> Tensor:
        """Elements of the margins that no longer hold NaN."""
        margins = (self.storage[:MARGIN], self.storage[-MARGIN:])
        return (~margins[0].isnan()).sum() + (~margins[1].isnan()).sum()


@dataclass(frozen=True, slots=True)
class Outputs:
    """All that one call writes. The partials may stay unwritten where a split is empty."""

    out: Guarded  # [batch, qo_len, num_qo_heads, head_dim]
    lse: Guarded | None  # [batch, qo_len, num_qo_heads]
    partials: tuple[Guarded, ...] = ()  # acc, max, sum

    def stray_writes(self) -> int:
        """Elements written outside, or of out and lse not written: waits for the device."""
        faults = self.out.faults() + (self.lse.faults() if self.lse else 0)
        for part in self.partials:
            faults = faults + part.faults_outside()
        return int(faults)


def guarded(shape: tuple[int, ...], dtype: Any, device: str) -> Guarded:
    """A contiguous poisoned tensor."""
    import torch

    size = math.prod(shape)
    storage = torch.full((size + 2 * MARGIN,), math.nan, dtype=dtype, device=device)
    return Guarded(storage[MARGIN : MARGIN + size].view(shape), storage)


def unguarded(view: Tensor) -> Guarded:
    """A tensor that lies inside of an input: only what was left out shows."""
    return Guarded(view, view)


def guarded_output(shape: tuple[int, ...], dtype: str, layout: Layout, device: str) -> Guarded:
    """A poisoned output in the layout: heads-first, with gaps between its rows, or contiguous."""
    batch, qo_len, heads, head_dim = shape
    if layout == "heads_first":
        flat = guarded((batch, heads, qo_len, head_dim), torch_dtype(dtype), device)
        return Guarded(flat.view.transpose(1, 2), flat.storage)
    gap = GAP if layout in ("padded", "mixed") else 0
    flat = guarded((batch, qo_len, heads, head_dim + gap), torch_dtype(dtype), device)
    return Guarded(flat.view[..., :head_dim], flat.storage)


def guarded_partials(rows: tuple[int, ...], head_dim: int, device: str) -> tuple[Guarded, ...]:
    """Room for acc, max and sum of rows `[batch, qo_len, num_qo_heads, num_splits]`."""
    import torch

    return tuple(guarded(shape, torch.float32, device) for shape in ((*rows, head_dim), rows, rows))
