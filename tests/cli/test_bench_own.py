"""The table of `sparkctl bench` for kernels with cases in Python, whole, 80 columns wide."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from sparkctl.bench.facts import DeviceFacts
from sparkctl.bench.results import Sample, Series, Stamp
from sparkctl.render.bench_own import show_own_bench
from sparkctl.workflows.bench_own import OwnFailure, OwnRow, OwnRun

FACTS = DeviceFacts("NVIDIA H200", "sm_90", 132, 1 << 20, None, None, "2", None, "3", None)
SCREEN = """\
                      time  noise        of copy                vs
case                    µs      %  TB/s        %  error  torch rms
rmsnorm.bf16
  rows64-cols4096    10.00    0.0  0.10     80.0   0.41      1.40×
  rows4096-cols4096  640.0    0.0  0.10     80.0   0.41      1.40×
failed  rmsnorm.fp32 rows64-cols4096: out of memory
other did not run: ImportError: no module
partly from L2, too small to exceed it twice: rows64-cols4096

cold L2, CUDA graph; error of the last timed call, as a share of what is allowed
of copy: bandwidth over that of torch's copy_ of as many bytes
vs: the peer's time over ours
NVIDIA H200, sm_90, nvcc 13.0.88, profile release, 0123456789ab and changes
"""


def series(time_us: float) -> Series:
    return Series(tuple(Sample(time_us, 1980) for _ in range(20)), 10, "precise")


def row(rows: int) -> OwnRow:
    unit = rows / 64
    peers = {"torch rms": series(14 * unit), "other": "ImportError: no module"}
    return OwnRow(
        variant="rmsnorm.bf16",
        case_id=f"rows{rows}-cols4096",
        series=series(10 * unit),
        bytes_moved=int(2**20 * unit),
        copy=series(8 * unit),
        peers=peers,
        slots=64,
        cold=rows > 64,
        error=0.41,
    )


def test_the_whole_screen() -> None:
    out = StringIO()
    failure = OwnFailure("rmsnorm.fp32", "rows64-cols4096", "out of memory")
    stamp = Stamp("0123456789abcdef", True)
    run = OwnRun(FACTS, "nvcc 13.0.88", "release", {}, stamp, (row(64), row(4096)), (failure,), 5)
    show_own_bench(Console(width=80, file=out), run)
    assert "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n" == SCREEN
