"""The device in use, and the versions around it."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import Any

from sparkctl.bench.clocks import ClockReader
from sparkctl.errors import MissingTool


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What the CUDA runtime says about the device in use, and the versions around it."""

    name: str
    arch: str
    sm_count: int
    l2_bytes: int
    driver: str | None
    cuda: str | None
    torch: str
    cudnn: str | None
    python: str
    clocks_missing: str | None  # why clocks could not be read


def find_facts(device: str, clocks: ClockReader) -> DeviceFacts:
    """Asks torch; `device` as torch names it: "cuda:0"."""
    import torch

    properties = torch.cuda.get_device_properties(device)
    cudnn_version: Any = torch.backends.cudnn.version  # not annotated
    cudnn = cudnn_version()
    return DeviceFacts(
        name=properties.name,
        arch=f"sm_{properties.major}{properties.minor}",
        sm_count=properties.multi_processor_count,
        l2_bytes=properties.L2_cache_size,
        driver=clocks.driver,
        cuda=torch.version.cuda,
        torch=torch.__version__,
        cudnn=None if cudnn is None else str(cudnn),
        python=platform.python_version(),
        clocks_missing=clocks.missing,
    )


def find_cuda_device() -> str:
    """Torch's current device; MissingTool when torch sees none."""
    import torch

    if not torch.cuda.is_available():
        raise MissingTool(
            f"torch {torch.__version__} sees no CUDA device",
            hint="a torch built for CUDA, or sparkctl bench --estimate H200",
        )
    return f"cuda:{torch.cuda.current_device()}"
