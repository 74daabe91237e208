"""The ceiling of the tensor cores: a large matrix product, timed as the cases are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkctl.bench.clocks import Clocks
from sparkctl.bench.device import Device
from sparkctl.bench.measure import Arm, GraphTimer, estimate_call_us, plan_calls, warm_up
from sparkctl.bench.results import GemmCeiling
from sparkctl.bench.sampling import sample_in_turn
from sparkctl.bench.statistics import StopRule
from sparkctl.errors import WorkFailed

if TYPE_CHECKING:
    import torch

GEMM_SIZE = 8192  # rows and columns: each matrix is 134 MB in bf16
CHECKED = 8  # columns of the first and of the last row
TOLERANCE = 0.02  # of the largest value: bf16 rounds to 1/256
NAME = "GEMM ceiling"


@dataclass(frozen=True, slots=True)
class Gemm:
    """out = a · b, [size, size] each; `arm.call` enqueues it."""

    size: int
    arm: Arm
    a: torch.Tensor
    b: torch.Tensor


def torch_gemm(device: str, size: int = GEMM_SIZE) -> Gemm:
    """torch.matmul in bf16, inputs from N(0,1)."""
    import torch

    generator = torch.Generator(device=device).manual_seed(0)
    a, b = (torch.randn(size, size, dtype=torch.bfloat16, device=device, generator=generator) for _ in range(2))
    out = torch.empty_like(a)

    def call(slot: int) -> torch.Tensor:
        return torch.matmul(a, b, out=out)

    return Gemm(size, Arm(NAME, call), a, b)


def measure_gemm(
    make: Callable[[str], Gemm], *, device: Device, clocks: Clocks, rule: StopRule, budget_s: float, warm_up_s: float
) -> GemmCeiling:
    """The product in a graph, sampled until it is precise or the budget ends. WorkFailed when it is wrong."""
    gemm = make(device.name)
    calls = plan_calls(1, estimate_call_us(gemm.arm, 1, device))
    timer = GraphTimer(gemm.arm, slots=1, calls=calls, clocks=clocks, device=device)
    warm_up([timer], seconds=warm_up_s)
    series = sample_in_turn({NAME: timer}, rule=rule, budget_s=budget_s, now=device.now, before_round=timer.poison)[
        NAME
    ]
    _check(gemm, timer.outputs[0])
    return GemmCeiling(gemm.size, "bf16", series)


def _check(gemm: Gemm, out: torch.Tensor) -> None:
    """Every element written, and a few of both ends right."""
    if bool(out.isnan().any()):
        raise WorkFailed("the matrix product of the GEMM ceiling left elements unwritten")
    for row in (0, -1):
        expected = gemm.a[row].double() @ gemm.b[:, -CHECKED:].double()
        off = float((out[row, -CHECKED:].double() - expected).abs().max())
        if not off <= TOLERANCE * max(1.0, float(expected.abs().max())):
            raise WorkFailed(f"the matrix product of the GEMM ceiling is wrong by {off:.3g}")
