"""What measuring asks of a device: events, graphs, memory, a clock. CUDA's stand on torch; tests put in one made up."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any, Protocol


class Event(Protocol):
    """A point in the device's work."""

    def record(self) -> None: ...

    def synchronize(self) -> None: ...

    def elapsed_us(self, end: Any) -> float:
        """From this event to `end`, another of the same device."""


class Graph(Protocol):
    """Captured work."""

    def replay(self) -> None: ...


class Device(Protocol):
    """One device and the host's clock beside it."""

    @property
    def name(self) -> str:
        """As torch names it: where tensors are made."""

    def event(self) -> Event: ...

    def synchronize(self) -> None: ...

    def run_aside(self, work: Callable[[], None]) -> None:
        """Run work on a stream of its own and wait for it: what is lazily set up must not happen while capturing."""

    def capture(self, work: Callable[[], None]) -> Graph: ...

    def hold(self, cycles: int) -> None:
        """Keep the device waiting for so many clock cycles."""

    def now(self) -> float:
        """Seconds of the host's clock."""

    def free_bytes(self) -> int | None:
        """Memory that could still be allocated; None where nobody counts."""

    def release(self) -> None:
        """Give cached memory back, after a case that failed."""

    def reset_persisting_l2(self) -> str | None:
        """Lines that somebody pinned in L2 become ordinary ones; why not, where that failed."""


class CudaDevice:
    """A CUDA device through torch."""

    def __init__(self, name: str = "cuda") -> None:
        self.name = name

    def event(self) -> Event:
        return _CudaEvent()

    def synchronize(self) -> None:
        import torch

        torch.cuda.synchronize()

    def run_aside(self, work: Callable[[], None]) -> None:
        import torch

        stream: Any = torch.cuda.Stream  # not annotated
        side = stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            work()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()

    def capture(self, work: Callable[[], None]) -> Graph:
        import torch

        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
        return graph

    def hold(self, cycles: int) -> None:
        import torch

        spin: Any = torch.cuda._sleep  # not annotated
        spin(cycles)

    def now(self) -> float:
        return time.perf_counter()

    def free_bytes(self) -> int | None:
        import torch

        cached = torch.cuda.memory_reserved(self.name) - torch.cuda.memory_allocated(self.name)
        return torch.cuda.mem_get_info(self.name)[0] + cached

    def release(self) -> None:
        import gc

        import torch

        gc.collect()
        torch.cuda.empty_cache()

    def reset_persisting_l2(self) -> str | None:
        """cuCtxResetPersistingL2Cache of the context that torch made current."""
        try:
            status = int(ctypes.CDLL("libcuda.so.1").cuCtxResetPersistingL2Cache())
        except (OSError, AttributeError) as error:
            return str(error)
        return None if status == 0 else f"CUDA driver error {status}"


class _CudaEvent:
    def __init__(self) -> None:
        import torch

        make: Any = torch.cuda.Event  # not annotated
        self._event = make(enable_timing=True)

    def record(self) -> None:
        self._event.record()

    def synchronize(self) -> None:
        self._event.synchronize()

    def elapsed_us(self, end: _CudaEvent) -> float:
        return float(self._event.elapsed_time(end._event)) * 1000
