"""The ceiling of the tensor cores, on a device that is made up."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from fake_device import FakeDevice

from sparkctl.bench.axes import DecodeCase, Heads
from sparkctl.bench.gemm import Gemm, measure_gemm
from sparkctl.bench.measure import Arm
from sparkctl.bench.results import Ceiling, GemmCeiling, Row, Sample, Series
from sparkctl.bench.statistics import StopRule
from sparkctl.bench.traffic import decode_traffic
from sparkctl.errors import WorkFailed

RULE = StopRule(min_samples=5, max_samples=5)


def make(device: FakeDevice, factor: float = 1.0) -> Gemm:
    a, b, out = torch.randn(32, 32), torch.randn(32, 32), torch.empty(32, 32)

    def call(slot: int) -> torch.Tensor:
        device.enqueue("gemm", 0, lambda: out.copy_(a @ b * factor))
        return out

    return Gemm(8192, Arm("gemm", call), a, b)


def measure(device: FakeDevice, gemm: Gemm) -> GemmCeiling:
    return measure_gemm(lambda name: gemm, device=device, clocks=device, rule=RULE, budget_s=1.0, warm_up_s=0.0)


def test_the_rate_is_two_operations_for_each_of_n_cubed(device: FakeDevice) -> None:
    device.sample_of = lambda name, index: Sample(1600.0, 1755)
    found = measure(device, make(device))
    assert found.tflops == pytest.approx(2 * 8192**3 / 1.6e-3 / 1e12)
    assert (len(found.series.samples), found.series.calls) == (5, 2)  # 2 ms of work


def test_a_wrong_product_is_no_ceiling(device: FakeDevice) -> None:
    with pytest.raises(WorkFailed, match=r"the matrix product of the GEMM ceiling is wrong by"):
        measure(device, make(device, factor=1.1))


def test_a_product_that_is_not_computed_is_no_ceiling(device: FakeDevice) -> None:
    gemm = make(device)
    out = torch.zeros(32, 32)

    def lazy(slot: int) -> torch.Tensor:
        device.enqueue("gemm", 0, lambda: None)
        return out

    with pytest.raises(WorkFailed, match="left elements unwritten"):
        measure(device, replace(gemm, arm=Arm("gemm", lazy)))


def row(case: DecodeCase, time_us: float) -> Row:
    traffic = decode_traffic(case)
    read_us = traffic.bytes / 4.6e6
    one = Series(tuple(Sample(time_us) for _ in range(20)), 1, "precise")
    ceiling = Ceiling("stream_read", traffic.bytes, replace(one, samples=tuple(Sample(read_us) for _ in range(20))))
    return Row(case, "k", "v", 1, traffic, 2, one, one, ceiling, (), "")


def test_only_a_row_that_the_tensor_cores_bind_has_a_share_of_their_rate() -> None:
    gemm = GemmCeiling(8192, "bf16", Series((Sample(1571.0),), 2, "precise"))  # 700 TFLOP/s
    decode = row(DecodeCase(8, 16384, Heads(32, 8), 128), 120.0)
    assert (decode.is_compute_bound(gemm), decode.gemm_share(gemm)) == (False, None)
    many = row(DecodeCase(8, 16384, Heads(64, 1), 128, qo_len=16), 200.0)  # 1024 operations for each byte of K and V
    assert many.is_compute_bound(gemm)
    assert many.gemm_share(gemm) == pytest.approx(many.traffic.flops / 200e-6 / 700e12, rel=1e-3)
    assert many.gemm_share(None) is None
