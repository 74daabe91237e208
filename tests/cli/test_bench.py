"""`sparkctl bench`: screens, refusals and records, measured by a session that is made up."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sparkctl.arch import Arch
from sparkctl.bench.axes import DecodeCase
from sparkctl.bench.results import Ceiling, PeerResult, Row, Sample, Series, Stamp
from sparkctl.bench.session import DeviceFacts
from sparkctl.bench.traffic import decode_traffic
from sparkctl.cli.app import main
from sparkctl.errors import MissingTool
from sparkctl.ops.decode import DecodeCall
from sparkctl.runtime import BuiltVariant, Library, Manifest
from sparkctl.workflows import bench as workflow

ROOT = Path(__file__).resolve().parents[2]
FACTS = DeviceFacts(
    name="NVIDIA H200",
    arch="sm_90",
    sm_count=132,
    l2_bytes=60 * 2**20,
    driver="580.95.05",
    cuda="13.0",
    torch="2.11.0+cu130",
    cudnn="91900",
    python="3.12.3",
    clocks_missing=None,
)
DOUBT = "the numbers below are made up"


def series(time_us: float, **changes: object) -> Series:
    """20 samples around `time_us`, 0.1 % apart."""
    samples = tuple(Sample(time_us * (1 + 0.001 * (i % 3 - 1)), 1980) for i in range(20))
    return replace(Series(samples, calls=100, stop="precise"), **changes)  # type: ignore[arg-type]


class FakeSession:
    """Reads at 4.6 TB/s and decodes at 4.4."""

    facts = FACTS

    def __init__(self, tweak: Callable[[Row], Row] | None = None) -> None:
        self.tweak = tweak or (lambda row: row)
        self.asked: list[tuple[DecodeCase, str, int]] = []

    def measure(self, case: DecodeCase, calls: Sequence[DecodeCall]) -> tuple[Row, ...]:
        self.asked += [(case, call.plan.variant, call.plan.num_splits) for call in calls]
        return tuple(self.tweak(self.row(case, call)) for call in calls)

    def row(self, case: DecodeCase, call: DecodeCall) -> Row:
        traffic = decode_traffic(case)
        time_us = traffic.bytes / 4.4e6
        return Row(
            case=case,
            kernel=call.plan.variant.partition(".")[0],
            variant=call.plan.variant,
            num_splits=call.plan.num_splits,
            traffic=traffic,
            slots=9,
            series=series(time_us),
            eager=series(time_us + 5),
            ceiling=Ceiling("stream_read.u4, 4 blocks per SM", traffic.bytes, series(traffic.bytes / 4.6e6)),
            peers=(
                PeerResult("SDPA cuDNN", series(time_us * 1.25)),
                PeerResult("SDPA flash", None, "head_dim is too large"),
            ),
            error="0.50 of what is allowed",
        )


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    """A made-up device; the library is a manifest of what the plan asks for."""
    fake = FakeSession()

    def open_fake(registry: object, request: object, plan: workflow.BenchPlan, arch: object, progress: object) -> object:
        built = tuple(
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
            for v in plan.variants
        )
        manifest = Manifest("libsparkctl.so", "cuda", "sm_90", "release", {}, "d1", "nvcc 13.0.88", built)
        return Library(Path("build"), manifest, None, {v.name: i for i, v in enumerate(built)}), fake

    monkeypatch.setattr(workflow, "find_bench_arch", lambda: Arch(9, 0))
    monkeypatch.setattr(workflow, "open_cuda_session", open_fake)
    monkeypatch.setattr(workflow, "read_stamp", lambda root: Stamp("0123456789ab", True))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(ROOT)
    return fake


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = main(["bench", *args])
    out, err = capsys.readouterr()
    return code, "\n".join(line.rstrip() for line in out.splitlines()), err


NARROW = """\
attn_decode_split_kv_mma.bf16.d128, 32/8 heads, cold L2; case: batch × kv_len
           time  noise           % of  % of          eager   SDPA   SDPA
case         µs      %  TB/s  ceiling  peak  splits     µs  cuDNN  flash
1 × 16k   15.26    0.1  4.40       96    92       8  20.26  1.25×      –
8 × 16k   122.1    0.1  4.40       96    92       2  127.1  1.25×      –

SDPA columns: the peer's time over ours; above 1 ours is faster.
"""


def test_a_bare_bench_is_the_operators_choice_for_batch_1_and_8_against_sdpa(
    session: FakeSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = run(capsys, "--seq", "16k")
    assert code == 0
    assert out == NARROW
    assert err == "[1/2] 1 × 16k, 32/8, d128, bf16\n[2/2] 8 × 16k, 32/8, d128, bf16\n"
