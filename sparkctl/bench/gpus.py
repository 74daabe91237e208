"""GPUs by their data sheets: what floors and % of peak are computed from. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sparkctl.arch import Arch, parse_arch
from sparkctl.errors import UsageError
from sparkctl.registry.suggest import did_you_mean

_MIB = 1024 * 1024
# Words in a device's name that say nothing about its speed.
_FILLER = frozenset({"nvidia", "geforce", "tesla", "gpu", "graphics", "hgx", "sxm", "sxm4", "sxm5", "sxm6"})


@dataclass(frozen=True, slots=True)
class GpuSpec:
    """One row of the table. Tensor rates are dense, bf16 or fp16 inputs, fp32 accumulation."""

    name: str
    arch: Arch
    bandwidth_tbps: float
    bf16_tflops: float
    sm_count: int
    l2_bytes: int
    memory: str  # told apart from siblings of the same name by this word
    source: str = "datasheet"


def _gpu(name: str, arch: str, tbps: float, tflops: float, sms: int, l2_mib: int, memory: str) -> GpuSpec:
    return GpuSpec(name, parse_arch(arch), tbps, tflops, sms, l2_mib * _MIB, memory)


GPUS: tuple[GpuSpec, ...] = (
    _gpu("A100", "sm_80", 2.039, 312.0, 108, 40, "80gb"),
    _gpu("L20", "sm_89", 0.864, 119.5, 92, 96, "48gb"),
    _gpu("RTX 4090", "sm_89", 1.008, 165.2, 128, 72, "24gb"),
    _gpu("H200", "sm_90", 4.8, 989.4, 132, 50, "141gb"),
    _gpu("B200", "sm_100", 8.0, 2250.0, 148, 126, "180gb"),
    _gpu("RTX 5090", "sm_120", 1.792, 209.5, 170, 96, "32gb"),
)


def find_gpu(text: str) -> GpuSpec:
    """The GPU meant by `H200`, `rtx4090`, `RTX 4090`, `4090` or `NVIDIA A100-SXM4-80GB`; UsageError otherwise."""
    spec = match_gpu(text)
    if spec is None:
        names = [gpu.name for gpu in GPUS]
        near = did_you_mean(text, names) or ""
        listed = "known: " + ", ".join(names)
        raise UsageError(f"unknown GPU '{text}'", hint=near if near == listed else f"{near} {listed}".strip())
    return spec


def match_gpu(text: str) -> GpuSpec | None:
    """As `find_gpu`, None when the table has no such GPU. A sibling (`RTX 4090 D`, `A100 40GB`) is not a match."""
    asked = _key(text)
    for gpu in GPUS:
        words = _words(gpu.name)
        keys = {"".join(words), words[-1]}
        if asked in keys | {key + gpu.memory for key in keys}:
            return gpu
    return None


def _key(text: str) -> str:
    return "".join(word for word in _words(text) if word not in _FILLER)


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())
