"""Timing on a CUDA device: calls captured in one graph, rotating among slots, replayed between two events."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkctl.bench.clocks import Clocks
from sparkctl.bench.device import CudaDevice, Device, Graph
from sparkctl.bench.results import Sample

if TYPE_CHECKING:
    import torch

TARGET_SAMPLE_US = 2000.0  # of GPU work in one sample: 4000 times the resolution of an event
MAX_CALLS = 4096  # nodes in a graph, unless the slots alone are more
MAX_EAGER_CALLS = 200  # likewise
WARM_UP_S = 0.2  # of replays before the first sample that counts: clocks rise from idle in tens of ms
HOLD_MIN_US, HOLD_MAX_US = 50.0, 20_000.0
HOLD_CYCLES_PER_US = 2000  # at 2 GHz; a slower clock only holds longer


@dataclass(frozen=True, slots=True)
class Arm:
    """Something to time: `call(i)` enqueues one call on slot i, on torch's current stream, without waiting, and returns
    the tensor it writes. What it writes to must exist before the call or come from torch's allocator."""

    name: str
    call: Callable[[int], torch.Tensor]


def plan_calls(slots: int, call_us: float) -> int:
    """Calls in one sample: whole rotations, enough for TARGET_SAMPLE_US, not above MAX_CALLS unless one rotation is."""
    wanted = math.ceil(TARGET_SAMPLE_US / max(call_us, 0.1) / slots)
    return slots * max(1, min(wanted, MAX_CALLS // slots))


def estimate_call_us(arm: Arm, slots: int, device: Device | None = None) -> float:
    """One rotation without a graph after one to warm up: an upper bound of the time of a call."""
    device = device or CudaDevice()
    start, end = device.event(), device.event()
    for slot in range(slots):
        arm.call(slot)
    start.record()
    for slot in range(slots):
        arm.call(slot)
    end.record()
    end.synchronize()
    return start.elapsed_us(end) / slots


class GraphTimer:
    """`calls` calls of an arm in one CUDA graph. A sample is one replay; gaps between launches are not in it.

    A kernel that only waits runs ahead of each sample until the host has enqueued the events and the graph, so that
    neither the host's work nor the first launch falls between the events.
    """

    def __init__(self, arm: Arm, *, slots: int, calls: int, clocks: Clocks, device: Device | None = None) -> None:
        self.arm = arm
        self.calls = calls
        self.device = device or CudaDevice()
        self.outputs: dict[int, torch.Tensor] = {}  # of the last call on each slot
        self._clocks = clocks
        self._start = self.device.event()
        self._end = self.device.event()
        self._graph = self._capture(slots)
        self._hold_cycles = self._plan_hold()

    def take_sample(self) -> Sample:
        """One replay. The clock is read while the device still works."""
        self.device.hold(self._hold_cycles)
        self._start.record()
        self._graph.replay()
        self._end.record()
        clock, throttle = self._clocks.read()
        self._end.synchronize()
        return Sample(self._start.elapsed_us(self._end) / self.calls, clock, throttle)

    def poison(self) -> None:
        """Fill what the calls write with NaN (or all ones, for whole numbers), so that an output proves a call."""
        poison(list(self.outputs.values()))

    def _capture(self, slots: int) -> Graph:
        def work() -> None:
            for index in range(self.calls):
                self.outputs[index % slots] = self.arm.call(index % slots)

        def first_calls() -> None:
            for _ in range(2):
                self.arm.call(0)

        self.device.run_aside(first_calls)
        return self.device.capture(work)

    def _plan_hold(self) -> int:
        """Twice the time that the host needs to enqueue a replay, the first (which uploads the graph) left out."""
        longest = 0.0
        for replay in range(4):
            self.device.synchronize()
            start = self.device.now()
            self._graph.replay()
            if replay:
                longest = max(longest, self.device.now() - start)
        self.device.synchronize()
        hold_us = min(max(2e6 * longest, HOLD_MIN_US), HOLD_MAX_US)
        return int(hold_us * HOLD_CYCLES_PER_US)


class EagerTimer:
    """Calls one by one from Python, as a program without graphs makes them: the host's time is in it.

    Whole rotations from slot 0 on, as in a graph: else the arm that is sampled next would find its first slots in L2.
    """

    def __init__(self, arm: Arm, *, slots: int, calls: int, clocks: Clocks, device: Device | None = None) -> None:
        self.arm = arm
        self.calls = slots * max(1, min(calls, MAX_EAGER_CALLS) // slots)
        self._device = device or CudaDevice()
        self._slots = slots
        self._clocks = clocks
        self._start = self._device.event()
        self._end = self._device.event()

    def take_sample(self) -> Sample:
        """The device is idle when it begins."""
        self._device.synchronize()
        self._start.record()
        for index in range(self.calls):
            self.arm.call(index % self._slots)
        self._end.record()
        clock, throttle = self._clocks.read()
        self._end.synchronize()
        return Sample(self._start.elapsed_us(self._end) / self.calls, clock, throttle)


def warm_up(
    timers: Sequence[GraphTimer],
    *,
    seconds: float = WARM_UP_S,
    failed: Callable[[GraphTimer, Exception], None] | None = None,
) -> None:
    """Replay all in turn until the time is over, each twice at least; one that fails leaves, and `failed` is told."""
    left = list(timers)
    if not left:
        return
    now = left[0].device.now
    end = now() + seconds
    rounds = 0
    while rounds < 2 or now() < end:
        for timer in list(left):
            try:
                timer.take_sample()
            except Exception as error:
                if failed is None:
                    raise
                failed(timer, error)
                left.remove(timer)
        rounds += 1


def poison(tensors: Sequence[torch.Tensor]) -> None:
    """NaN in every element of floats, in a few launches however many there are; all ones in whole numbers."""
    import torch

    floats = [tensor for tensor in tensors if tensor.is_floating_point()]
    if floats:
        torch._foreach_mul_(floats, math.nan)
    for tensor in tensors:
        if not tensor.is_floating_point():
            tensor.fill_(-1)


def flip(tensors: Sequence[torch.Tensor]) -> None:
    """Turn every sign round: other inputs of the same distribution."""
    import torch

    torch._foreach_neg_(list(tensors))
