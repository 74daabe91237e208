"""The floor time of a case on a GPU that need not be here: a roofline over the data sheet. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sparkctl.bench.axes import DecodeCase
from sparkctl.bench.gpus import GpuSpec
from sparkctl.bench.traffic import Traffic, decode_traffic

FORMULA = "floor = max(bytes / bandwidth, flops / tensor rate)"


@dataclass(frozen=True, slots=True)
class Estimate:
    """No kernel can be faster than `floor_us`; none is promised to reach it."""

    case: DecodeCase
    gpu: GpuSpec
    traffic: Traffic
    memory_us: float
    compute_us: float

    @property
    def floor_us(self) -> float:
        """The larger of the two terms."""
        return max(self.memory_us, self.compute_us)

    @property
    def bound(self) -> Literal["memory", "compute"]:
        """The term that decides."""
        return "memory" if self.memory_us >= self.compute_us else "compute"

    @property
    def fits_l2(self) -> bool:
        """Whether K and V fit the L2, so that a run over warm data may beat the memory term."""
        return self.traffic.kv_bytes <= self.gpu.l2_bytes


def estimate_decode(case: DecodeCase, gpu: GpuSpec) -> Estimate:
    """`FORMULA` over the case's least traffic; µs."""
    traffic = decode_traffic(case)
    return Estimate(
        case=case,
        gpu=gpu,
        traffic=traffic,
        memory_us=traffic.bytes / (gpu.bandwidth_tbps * 1e6),
        compute_us=traffic.flops / (gpu.bf16_tflops * 1e6),
    )
