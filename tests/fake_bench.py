"""`sparkctl bench` on a device that is made up: samples that an H200 gave, played back on small cases.

A case is played from the recorded row with the same batch and 64 times its kv_len; one of several lengths from that of
as many keys in sequences of one length, and takes `ragged` times as long; one whose lengths are drawn from any.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from fake_device import FakeDevice, fake_library

from sparkctl.bench.ab import Comparison
from sparkctl.bench.arms import KernelCall
from sparkctl.bench.axes import DecodeCase, equal_case
from sparkctl.bench.buffers import Slots
from sparkctl.bench.call_options import CallOptions
from sparkctl.bench.facts import DeviceFacts
from sparkctl.bench.gemm import Gemm
from sparkctl.bench.measure import Arm
from sparkctl.bench.peers import PeerArm
from sparkctl.bench.results import Failure, Row, Sample
from sparkctl.bench.session import CudaSession
from sparkctl.bench.statistics import StopRule
from sparkctl.build.outputs import runtime_flags_of
from sparkctl.runtime import Library
from sparkctl.workflows.bench_verify import verify_outputs

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "benchmarks" / "results" / "h200"
SCALE = 64  # recorded kv_len over the case's
SDPA = ("SDPA cuDNN", "SDPA flash")
GEMM_US = 1571.0
FACTS = DeviceFacts(
    name="NVIDIA H200",
    arch="sm_90",
    sm_count=132,
    l2_bytes=2**16,
    driver="580.95.05",
    cuda="13.0",
    torch="2.11.0+cu130",
    cudnn="91900",
    python="3.12.3",
    clocks_missing=None,
)


@functools.cache
def recorded_rows(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((RECORDS / name).read_text(encoding="utf-8"))["rows"]
    return rows


class Player:
    """What each name takes on the case that runs; `speed` of a name multiplies its times."""

    def __init__(self, record: str) -> None:
        self.record = record
        self.case: DecodeCase | None = None
        self.arms: list[str] = []  # variants in the order in which the recorded rows hold them
        self.speed: dict[str, float] = {}
        self.ragged = 1.25
        self.gemm_us = GEMM_US
        self.throttle: dict[str, tuple[str, ...]] = {}
        self.on_sample: Any = lambda name, index: None

    def sample_of(self, name: str, index: int) -> Sample:
        self.on_sample(name, index)
        if name == "gemm":
            return Sample(self.gemm_us * (1 + 0.001 * (index % 3)), 1755)
        series = self._series(name)
        at = index % len(series["samples_us"])
        time_us = series["samples_us"][at] * self.speed.get(name, 1.0) * self._scale()
        return Sample(time_us, series["sm_clocks_mhz"][at], self.throttle.get(name, ()))

    def _scale(self) -> float:
        assert self.case is not None
        return (0.75 if self.case.l2 == "hot" else 1.0) * (1.0 if self.case.kv_lens is None else self.ragged)

    def _series(self, name: str) -> dict[str, Any]:
        rows = self._rows()
        if name == "stream_read":
            found = rows[0]["ceiling"]["time"]
        elif name in SDPA:
            found = next(peer["time"] for peer in rows[0]["peers"] if peer["name"] == name)
        else:
            if name not in self.arms:
                self.arms.append(name)
            found = rows[self.arms.index(name) % len(rows)]["time"]
        series: dict[str, Any] = found
        return series

    def _rows(self) -> list[dict[str, Any]]:
        assert self.case is not None
        kv_len = (equal_case(self.case) or self.case).kv_len * SCALE
        rows = [row for row in recorded_rows(self.record) if row["case"]["batch"] == self.case.batch]
        found = [row for row in rows if row["case"]["kv_len"] == kv_len]
        return rows if self.case.spread is not None and not found else found


class PlayedSession(CudaSession):
    """Tells the player which case runs."""

    player: Player

    def measure(self, case: DecodeCase, calls: Sequence[KernelCall]) -> Iterator[Row | Failure]:
        self.player.case, self.player.arms = case, []
        yield from super().measure(case, calls)

    def compare(
        self, case: DecodeCase, arms: Sequence[tuple[str, KernelCall]], options: Sequence[CallOptions] = ()
    ) -> tuple[tuple[Row, ...], tuple[Comparison, ...]]:
        self.player.case, self.player.arms = case, [call.plan.variant for _, call in arms]
        return super().compare(case, arms, options)


class FakeBench:
    """The device, its player, and what opens a session on them."""

    def __init__(self, record: str = "decode.json") -> None:
        self.player = Player(record)
        self.warm_up_s = 0.0
        self.device = FakeDevice(lambda name, index: self.player.sample_of(name, index))
        self.library: Library = fake_library(self.device)

    def open(self, registry: Any, request: Any, plan: Any, arch: Any, progress: Any) -> tuple[Library, CudaSession]:
        flags = runtime_flags_of(registry, arch, "release")
        library = replace(self.library, manifest=replace(self.library.manifest, runtime_flags=flags))
        session = PlayedSession(
            library,
            device=self.device,
            facts=FACTS,
            clocks=self.device,
            peers=request.peers,
            verify=verify_outputs,
            budget_s=request.budget_s,
            rule=StopRule(),
            warm_up_s=self.warm_up_s,
            gemm=self.gemm,
        )
        session.player = self.player
        return library, session

    def gemm(self, device: str) -> Gemm:
        """Small matrices that say that they are large."""
        a, b = torch.eye(16), torch.randn(16, 16)
        out = torch.empty(16, 16)

        def call(slot: int) -> torch.Tensor:
            self.device.enqueue("gemm", out.data_ptr(), lambda: torch.matmul(a, b, out=out))
            return out

        return Gemm(8192, Arm("GEMM ceiling", call), a, b)

    def sdpa(self, case: DecodeCase, slots: Slots) -> tuple[PeerArm, ...]:
        """Both backends, run by torch's own choice."""
        if case.page_size is not None:
            return tuple(PeerArm(name, None, "not applicable, it takes no page table") for name in SDPA)
        if case.prefill:
            return tuple(PeerArm(name, None, "not in the records") for name in SDPA)
        if case.kv_lens is not None:
            return tuple(PeerArm(name, None, "not applicable, it takes no lengths") for name in SDPA)
        return tuple(self._sdpa_arm(name, slots) for name in SDPA)

    def _sdpa_arm(self, name: str, slots: Slots) -> PeerArm:
        outs = [torch.empty_like(out) for out in slots.out]

        def call(slot: int) -> torch.Tensor:
            def run() -> None:
                q, k, v = (x[slot].transpose(1, 2).float() for x in (slots.q, slots.k, slots.v))
                found = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
                outs[slot].copy_(found.transpose(1, 2))

            self.device.enqueue(name, outs[slot].data_ptr(), run)
            return outs[slot]

        return PeerArm(name, call)
