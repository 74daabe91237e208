"""The CUDA devices of this machine, asked through NVML so that no CUDA context is made."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sparkctl.arch import Arch


@dataclass(frozen=True, slots=True)
class Device:
    """One CUDA device."""

    index: int
    name: str
    arch: Arch
    sm_count: int | None  # None where NVML does not tell
    memory_bytes: int
    driver: str


def find_devices() -> tuple[Device, ...]:
    """All devices that the driver shows; none when there is no driver or NVML does not load."""
    with contextlib.suppress(Exception):  # NVML raises its own kinds, one for each fault; all mean "no device"
        import pynvml

        with _session(pynvml):
            driver = _text(pynvml.nvmlSystemGetDriverVersion())
            return tuple(_describe(pynvml, index, driver) for index in range(pynvml.nvmlDeviceGetCount()))
    return ()


def find_native_archs() -> tuple[Arch, ...]:
    """The archs of this machine's devices, each once."""
    return tuple(dict.fromkeys(device.arch for device in find_devices()))


@contextlib.contextmanager
def _session(pynvml: Any) -> Iterator[None]:
    pynvml.nvmlInit()
    try:
        yield
    finally:
        pynvml.nvmlShutdown()


def _describe(pynvml: Any, index: int, driver: str) -> Device:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
    sm_count = None
    with contextlib.suppress(Exception):
        sm_count = int(pynvml.nvmlDeviceGetAttributes(handle).multiprocessorCount)
    return Device(
        index=index,
        name=_text(pynvml.nvmlDeviceGetName(handle)),
        arch=Arch(major, minor),
        sm_count=sm_count,
        memory_bytes=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
        driver=driver,
    )


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
