"""A device that is made up: work runs at once on the CPU, and takes as long on the device's clock as the test says.

The host has a clock too. Enqueuing costs host time, and work begins when the device is free and the host has enqueued
it, so that a gap between launches shows in a sample as it would on a GPU.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sparkctl.bench.results import Sample
from sparkctl.ops.fallback import attention_torch
from sparkctl.ops.options import NO_WINDOW, AttentionOptions
from sparkctl.registry import find_project, load_registry, select_variants
from sparkctl.runtime import BuiltVariant, Library, Manifest

ENQUEUE_US = 4.0  # of the host, for a replay or an event
CALL_US = 20.0  # of the host, for a call from Python
NO_OPTIONS = (False, NO_WINDOW, 0.0, None, None)
# The argument that tells one slot from another.
TARGET = {"decode": 6, "paged_decode": 7, "prefill": 9, "stream_read": 1}
ILLEGAL = "CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be reported asynchronously"


@dataclass(frozen=True, slots=True)
class Work:
    """One call: what it is, where it writes, what it does."""

    name: str
    target: int
    run: Callable[[], None]


class FakeEvent:
    def __init__(self, device: FakeDevice) -> None:
        self.device, self.at_us = device, 0.0

    def record(self) -> None:
        self.device.host_us += ENQUEUE_US
        self.at_us = self.device.begin_us()

    def synchronize(self) -> None:
        self.device.synchronize()

    def elapsed_us(self, end: FakeEvent) -> float:
        return end.at_us - self.at_us


class FakeGraph:
    def __init__(self, device: FakeDevice, tape: list[Work]) -> None:
        self.device, self.tape = device, tape

    def replay(self) -> None:
        """Each target is written once: the calls on a slot are all alike."""
        device = self.device
        device.host_us += ENQUEUE_US
        name = self.tape[-1].name
        device.fail("replay", name)
        for work in {work.target: work for work in self.tape}.values():
            work.run()
        sample = device.next_sample(name)
        device.clock_state = (sample.sm_clock_mhz, sample.throttle)
        device.busy(sample.time_us * len(self.tape))


class FakeDevice:
    """`sample_of(name, index)` is the index-th sample of whatever has the name, µs of one call; by default 300 µs.

    `faults[(phase, name)]` is raised when work of that name is called, captured or replayed.
    """

    name = "cpu"

    def __init__(self, sample_of: Callable[[str, int], Sample] | None = None) -> None:
        self.sample_of = sample_of or (lambda name, index: Sample(300.0, 1980))
        self.host_us = 0.0
        self.device_us = 0.0
        self.tape: list[Work] | None = None
        self.taken: dict[str, int] = {}
        self.clock_state: tuple[int | None, tuple[str, ...]] = (None, ())
        self.faults: dict[tuple[str, str], BaseException] = {}
        self.free: int | None = None
        self.held: list[int] = []
        self.called: set[tuple[str, int]] = set()
        self.resets = 0
        self.released = 0

    def event(self) -> FakeEvent:
        return FakeEvent(self)

    def synchronize(self) -> None:
        self.fail("synchronize", "")
        self.host_us = max(self.host_us, self.device_us)

    def run_aside(self, work: Callable[[], None]) -> None:
        work()
        self.synchronize()

    def capture(self, work: Callable[[], None]) -> FakeGraph:
        tape = self.tape = []
        try:
            work()
        finally:
            self.tape = None
        return FakeGraph(self, tape)

    def hold(self, cycles: int) -> None:
        self.held.append(cycles)
        self.host_us += ENQUEUE_US
        self.busy(cycles / 2000)

    def now(self) -> float:
        return self.host_us * 1e-6

    def free_bytes(self) -> int | None:
        """Asked before a case is allocated."""
        self.called = set()
        return self.free

    def release(self) -> None:
        self.released += 1

    def reset_persisting_l2(self) -> str | None:
        self.resets += 1
        return None

    def read(self) -> tuple[int | None, tuple[str, ...]]:
        """As the clocks are read."""
        return self.clock_state

    def enqueue(self, name: str, target: int, run: Callable[[], None]) -> None:
        """A call from Python: on the tape while capturing, else at once."""
        self.fail("call" if self.tape is None else "capture", name)
        if self.tape is not None:
            self.tape.append(Work(name, target, run))
            return
        self.host_us += CALL_US
        if name == "stream_read" or (name, target) not in self.called:  # only a first output is looked at
            self.called.add((name, target))
            run()
        self.busy(self.sample_of(name, self.taken.get(name, 0)).time_us)

    def next_sample(self, name: str) -> Sample:
        index = self.taken.get(name, 0)
        self.taken[name] = index + 1
        return self.sample_of(name, index)

    def begin_us(self) -> float:
        self.device_us = max(self.device_us, self.host_us)
        return self.device_us

    def busy(self, time_us: float) -> None:
        self.device_us = self.begin_us() + time_us

    def fail(self, phase: str, name: str) -> None:
        if (error := self.faults.get((phase, name))) is not None:
            raise error


class FakeModule:
    """Decodes and reads with torch on a fake device, and keeps the arguments of what ran."""

    def __init__(self, device: FakeDevice) -> None:
        self.device = device
        self.names: list[str] = []
        self.calls: list[tuple[Any, ...]] = []

    def get_function(self, name: str) -> Any:
        def call(*args: Any) -> None:
            label = name if name == "stream_read" else self.names[args[0]]
            self.device.enqueue(label, args[TARGET[name]].data_ptr(), lambda: getattr(self, name)(*args))

        return call

    def decode(self, *args: Any) -> None:
        import torch

        self.calls.append(args)
        _, _, q, k, v, lens, out, lse, _, _, _, scale, *rest = args
        causal, window, softcap, mask, sinks = (*rest, *NO_OPTIONS[len(rest) :])
        if lse is not None or (window, softcap, sinks) != (NO_WINDOW, 0.0, None):
            width = None if window == NO_WINDOW else window
            options = AttentionOptions(scale, causal, width, softcap or None, mask, sinks)
            result, result_lse = attention_torch(q, k, v, kv_lens=lens, options=options)
            out.copy_(result)
            if lse is not None:
                lse.copy_(result_lse)
        if (window, softcap, sinks) != (NO_WINDOW, 0.0, None):
            return
        for b in range(q.shape[0]):  # a batch of one length at once
            one = slice(None) if lens is None else slice(b, b + 1)
            keys = slice(None) if lens is None else slice(int(lens[b]))
            heads = (tensor.transpose(1, 2).float() for tensor in (q[one], k[one, keys], v[one, keys]))
            result = torch.nn.functional.scaled_dot_product_attention(*heads, scale=scale, enable_gqa=True)
            out[one].copy_(result.transpose(1, 2))
            if lens is None:
                break

    def paged_decode(
        self, variant: int, combine: int, q: Any, k: Any, v: Any, table: Any, lens: Any, *rest: Any
    ) -> None:
        """Gathers the pages and decodes."""
        k, v = (pages[table.long()].flatten(1, 2) for pages in (k, v))
        self.decode(variant, combine, q, k, v, lens, *rest)

    def prefill(
        self, variant: int, q: Any, k: Any, v: Any, table: Any, lens: Any, qo: Any, kv: Any, qo_len: int, *rest: Any
    ) -> None:
        """Gathers pages where there are some; causal to the bottom right."""
        out, lse, scale, causal, *_ = rest
        assert (qo, kv, qo_len, lse) == (None, None, q.shape[1], None)
        self.calls.append((variant, q, k, v, table, lens, qo, kv, qo_len, *rest))
        if table is not None:
            k, v = (pages[table.long()].flatten(1, 2)[:, : int(lens[0])] for pages in (k, v))
        options = AttentionOptions(scale, causal)
        out.copy_(attention_torch(q, k, v, kv_lens=None, options=options)[0])

    def stream_read(self, index: int, raw: Any, checksum: Any) -> None:
        words = raw.numpy().view(np.int32)
        checksum.zero_()
        checksum[-1] = int(np.bitwise_xor.reduce(words))


@functools.cache
def built_variants(dtype: str, head_dim: int) -> tuple[BuiltVariant, ...]:
    registry = load_registry(find_project(None))
    return tuple(
        BuiltVariant(
            name=v.name,
            kernel=v.kernel.name,
            family=v.kernel.family,
            values=dict(v.values),
            accepts={name: (span.start, span.stop) for name, span in v.kernel.accepts.items()},
            block_threads=v.block_threads,
            dynamic_smem_bytes=v.dynamic_smem_bytes,
            static_smem_bytes=0,
            registers=64,
            blocks_per_sm=2,
        )
        for v in select_variants(registry, where={"dtype": [dtype], "head_dim": [str(head_dim)]})
    )


def fake_library(device: FakeDevice, *, dtype: str = "bf16", head_dim: int = 64) -> Library:
    """A library of every variant of one shape, as if it were built."""
    built = built_variants(dtype, head_dim)
    module = FakeModule(device)
    module.names = [variant.name for variant in built]
    manifest = Manifest("libsparkctl.so", "cuda", "sm_90", "release", {}, "d1", "nvcc 13.0.88", built)
    return Library(Path("build"), manifest, module, {name: i for i, name in enumerate(module.names)})
