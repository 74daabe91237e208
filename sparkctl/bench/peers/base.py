"""What bench asks of a peer: one file per library, each giving the ways in which it can run a case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkctl.bench.axes import DecodeCase
from sparkctl.bench.buffers import Slots

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class PeerArm:
    """One way to run a case: `call(i)` enqueues it on the inputs of slot i and returns the output, shaped as ours.

    With a `reason` instead of a call it cannot run, and the reason says why in one line.
    """

    name: str
    call: Callable[[int], torch.Tensor] | None
    reason: str | None = None


Peer = Callable[[DecodeCase, Slots], tuple[PeerArm, ...]]
