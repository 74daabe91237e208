"""The CUDA devices of this machine, asked through NVML so that no CUDA context is made."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkctl.arch import Arch
from sparkctl.errors import MissingTool

KERNEL_DRIVER = Path("/proc/driver/nvidia/version")


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


@dataclass(frozen=True, slots=True)
class Driver:
    """The driver behind the devices."""

    version: str
    cuda: tuple[int, int]  # the newest CUDA whose programs it runs without a compatibility package


def find_driver(kernel_driver: Path = KERNEL_DRIVER) -> Driver | None:
    """None where there is no driver; MissingTool, with NVML's own words, for one that is there and does not answer."""
    try:
        import pynvml

        with _session(pynvml):
            cuda = int(pynvml.nvmlSystemGetCudaDriverVersion_v2())
            return Driver(_text(pynvml.nvmlSystemGetDriverVersion()), (cuda // 1000, cuda % 1000 // 10))
    except Exception as error:  # NVML raises its own kinds, one for each fault
        if not kernel_driver.exists():
            return None
        hint = "nvidia-smi shows the same; in a container: start it with --gpus all; after an update: restart"
        raise MissingTool(f"a driver is loaded and does not answer: {error}", hint=hint) from error


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
