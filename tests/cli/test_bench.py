"""`sparkctl bench`: screens, refusals and records, measured by a session that is made up."""

from __future__ import annotations

import csv
import json
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sparkctl.arch import Arch
from sparkctl.bench.ab import Bits, Comparison
from sparkctl.bench.arms import KernelCall
from sparkctl.bench.axes import DecodeCase
from sparkctl.bench.call_options import CallOptions
from sparkctl.bench.facts import DeviceFacts
from sparkctl.bench.record import result_path
from sparkctl.bench.results import Ceiling, PeerResult, Row, Sample, Series, Stamp
from sparkctl.bench.traffic import decode_traffic
from sparkctl.build.outputs import runtime_flags_of
from sparkctl.cli.app import main
from sparkctl.errors import MissingTool
from sparkctl.registry import Registry
from sparkctl.resources import occupancy
from sparkctl.runtime import BuiltVariant, Library, Manifest
from sparkctl.workflows import bench as workflow
from sparkctl.workflows import bench_vs, launch_estimate
from sparkctl.workflows.launch_estimate import Compiled, Usage

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
        self.bits = Bits(0, 4096, 0.0)

    def measure_gemm(self) -> None:
        """A device too small for it."""

    def measure(self, case: DecodeCase, calls: Sequence[KernelCall]) -> tuple[Row, ...]:
        self.asked += [(case, call.plan.variant, call.plan.num_splits) for call in calls]
        return tuple(self.tweak(self.row(case, call)) for call in calls)

    def compare(
        self, case: DecodeCase, arms: Sequence[tuple[str, KernelCall]], options: Sequence[CallOptions] = ()
    ) -> tuple[tuple[Row, ...], tuple[Comparison, ...]]:
        self.asked += [(case, call.plan.variant, call.plan.num_splits) for _, call in arms]
        rows = [replace(self.row(case, call), arm=label, peers=()) for label, call in arms]
        rows = [
            replace(row, series=series(row.series.median_us * 1.1**behind), variant=row.variant)
            for row, behind in zip(rows, range(len(rows) - 1, -1, -1), strict=True)
        ]
        tweaked = tuple(self.tweak(row) for row in rows)
        return tweaked, tuple(Comparison(tweaked[0], row, self.bits) for row in tweaked[1:])

    def row(self, case: DecodeCase, call: KernelCall) -> Row:
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
                PeerResult("SDPA flash", series(time_us * 1.5)),
            ),
            error="0.50 of what is allowed",
        )


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch, one_tile: None) -> FakeSession:
    """A made-up device; the library is a manifest of what the plan asks for."""
    fake = FakeSession()

    def open_fake(
        registry: Registry, request: object, plan: workflow.BenchPlan, arch: Arch, progress: object
    ) -> object:
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
        flags = runtime_flags_of(registry, arch, "release")
        manifest = Manifest("libsparkctl.so", "cuda", "sm_90", "release", {}, "d1", "nvcc 13.0.88", built, flags)
        return Library(Path("build"), manifest, None, {v.name: i for i, v in enumerate(built)}), fake

    monkeypatch.setattr(workflow, "find_bench_arch", lambda: Arch(9, 0))
    monkeypatch.setattr(workflow, "open_cuda_bench", open_fake)
    monkeypatch.setattr(workflow, "read_stamp", lambda root: Stamp("0123456789ab", True))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(ROOT)
    return fake


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = main(["bench", *args])
    out, err = capsys.readouterr()
    return code, "\n".join(line.rstrip() for line in out.splitlines()), err


FACT_LINES = """\
device    NVIDIA H200, sm_90, 132 SMs, 60 MiB L2, peak 4.8 TB/s (datasheet), SM
          at 1980 MHz
software  driver 580.95.05, CUDA 13.0, torch 2.11.0+cu130, cuDNN 91900, nvcc
          13.0.88
samples   at least 20, until the median's 95 % interval is at most 0.5% wide, 3
          s or 2000 samples
revision  sparkctl 0.1.0, commit 0123456789ab, dirty, profile release
"""

NARROW = """\
attn_decode_split_kv_mma.bf16.d128, 32/8 heads, cold L2; case: batch × kv_len
          time  noise           % of  % of          eager   SDPA   SDPA
case        µs      %  TB/s  ceiling  peak  splits     µs  cuDNN  flash
1 × 16k  15.26    0.2  4.40       96    92      16  20.26  1.25×  1.50×
8 × 16k  122.0    0.2  4.40       96    92       2  127.0  1.25×  1.50×

× is the peer's time over ours: above 1 ours is faster.
"""

NARROW_REPEAT = """\
repeat    sparkctl bench --seq 16k --batch 1,8 --heads 32/8 --head-dim 128
          --dtype bf16 --l2 cold --peers sdpa --budget 3 --profile release"""

WIDE = """\
attn_decode_split_kv_mma.bf16.d128, 32/8 heads, cold L2; case: batch × kv_len
          time  noise                    % of  % of  ceiling          eager      SDPA     SDPA      SDPA     SDPA
case        µs      %  samples  TB/s  ceiling  peak     TB/s  splits     µs  cuDNN µs  cuDNN ×  flash µs  flash ×
1 × 16k  15.26    0.2       20  4.40       96    92     4.60      16  20.26     19.07    1.25×     22.88    1.50×
8 × 16k  122.0    0.2       20  4.40       96    92     4.60       2  127.0     152.6    1.25×     183.1    1.50×

× is the peer's time over ours: above 1 ours is faster.
"""


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_a_bare_bench_is_the_operators_choice_for_batch_1_and_8_against_sdpa(
    session: FakeSession, narrow: None, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "--seq", "16k")
    assert code == 0
    assert out == NARROW + FACT_LINES + NARROW_REPEAT
    assert err == "[1/2] 1 × 16k, 32/8, d128, bf16\n[2/2] 8 × 16k, 32/8, d128, bf16\n"
    assert [variant for _, variant, _ in session.asked] == ["attn_decode_split_kv_mma.bf16.d128"] * 2


def test_a_wide_screen_has_room_for_the_peers_times_and_the_ceiling(
    session: FakeSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    code, out, _ = run(capsys, "--seq", "16k")
    assert code == 0
    assert out.startswith(WIDE)
    assert max(map(len, out.splitlines())) <= 120


def test_a_pipe_is_never_folded(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--seq", "16k", "--heads", "32/8,32/4", "attn_decode_split_kv_mma")
    repeat = [line for line in out.splitlines() if line.startswith("repeat")]
    assert len(repeat) == 1
    assert repeat[0].endswith("--profile release")


def test_colour_marks_headings_and_changes_no_text(
    session: FakeSession, narrow: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    _, out, _ = run(capsys, "--seq", "16k")
    assert out.startswith("\033[1mattn_decode_split_kv_mma.bf16.d128")
    plain = "\n".join(line.rstrip() for line in re.sub(r"\033\[[0-9;]*m", "", out).splitlines())
    assert plain == NARROW + FACT_LINES + NARROW_REPEAT


def test_quiet_says_nothing_on_stderr(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "--seq", "16k", "-q")
    assert (code, err) == (0, "")


def test_named_variants_are_each_measured_on_every_case(
    session: FakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "attn_decode_split_kv_mma", "--seq", "4k,16k", "--batch", "1", "--where", "stages=1,4")
    assert code == 0
    ends = ("s1", "s1.kv128", "s4")
    assert [(case.kv_len, variant) for case, variant, _ in session.asked] == [
        (kv_len, f"attn_decode_split_kv_mma.bf16.d128.{end}") for kv_len in (4096, 16384) for end in ends
    ]
    assert "--where stages=1,4" in out
    headings = [line for line in out.splitlines() if line.startswith("attn_")]
    assert [line.partition(",")[0].partition("d128.")[2] for line in headings] == list(ends)


def test_one_variant_can_be_named(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "--seq", "4k", "--batch", "1", "--variant", "attn_decode_split_kv.bf16.d128", "--num-splits", "3")
    assert [(variant, splits) for _, variant, splits in session.asked] == [("attn_decode_split_kv.bf16.d128", 3)]


def test_a_throttled_and_unfinished_row_says_so(
    session: FakeSession, narrow: None, capsys: pytest.CaptureFixture[str]
) -> None:
    def tweak(row: Row) -> Row:
        slow = tuple(Sample(99.0, 900, ("power cap",)) for _ in range(5))
        wobbly = tuple(Sample(15.0 + 0.2 * (i % 2), 1980) for i in range(20))
        return replace(row, series=Series((*slow, *wobbly), calls=100, stop="budget"))

    session.tweak = tweak
    code, out, _ = run(capsys, "--seq", "16k", "--batch", "1")
    assert code == 0
    assert "1 × 16k !  15.10    1.3" in out
    assert "! 1 × 16k, 32/8, d128, bf16: 5 of 25 samples throttled (power cap), left out." in out
    flat = " ".join(out.split())
    assert "stopped by the budget after 25 samples; the median's 95 % interval is 1.3% wide, wanted 0.5%." in flat
    assert "SM at 900–1980 MHz" in flat


def test_a_row_with_only_throttled_samples_has_numbers_and_says_what_they_are(
    session: FakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    throttled = Series(tuple(Sample(20.0, 900, ("hardware thermal",)) for _ in range(20)), 100, "budget")
    session.tweak = lambda row: replace(row, series=throttled)
    _, out, _ = run(capsys, "--seq", "16k", "--batch", "1")
    assert "every sample was throttled (hardware thermal); the numbers are those." in out
    assert "20.00" in out
    assert "nan" not in out.lower()


def test_a_peer_that_cannot_run_gives_its_reason_in_one_line_and_no_error(
    session: FakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = PeerResult("SDPA flash", None, "head_dim must be at most 256")
    session.tweak = lambda row: replace(row, peers=(row.peers[0], absent))
    code, out, _ = run(capsys, "--seq", "16k")
    assert code == 0
    assert out.count("SDPA flash did not run: head_dim must be at most 256") == 1


def test_a_result_above_the_ceiling_is_shown_fails_and_is_not_saved(
    session: FakeSession, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    session.tweak = lambda row: replace(row, series=series(row.series.median_us * 0.9))
    target = tmp_path / "run.json"
    code, out, err = run(capsys, "--seq", "16k", "--batch", "1", "--save", str(target))
    assert code == 1
    assert "106" in out
    assert "106% of the read ceiling (4.6 TB/s); more than 103% is a fault of the measurement" in err
    assert not target.exists()


def test_a_result_just_below_the_tolerance_is_a_result(
    session: FakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    session.tweak = lambda row: replace(row, series=series(row.series.median_us * 4.4 / (4.6 * 1.029)))
    assert run(capsys, "--seq", "16k", "--batch", "1")[0] == 0


def test_a_hot_l2_has_no_share_of_dram_peak(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--seq", "4k", "--batch", "1", "--l2", "hot", "--peers", "none")
    assert "hot L2" in out
    row = next(line for line in out.splitlines() if line.startswith("1 × 4k"))
    assert "–" in row.split()


def test_json_is_one_object_with_every_sample(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--seq", "16k", "--batch", "1", "--json")
    record = json.loads(out)
    assert code == 0
    assert (record["schema_version"], record["kind"]) == (2, "bench")
    assert record["environment"]["stamp"] == {"commit": "0123456789ab", "dirty": True}
    assert record["environment"]["peak_tbps"] == 4.8
    row = record["rows"][0]
    assert (row["case"]["kv_len"], row["case"]["num_kv_heads"], row["num_splits"]) == (16384, 8, 16)
    assert len(row["time"]["samples_us"]) == 20
    assert row["time"]["median_us"] == pytest.approx(15.2557, abs=1e-3)
    assert row["time"]["stop"] == "precise"
    assert [peer["name"] for peer in row["peers"]] == ["SDPA cuDNN", "SDPA flash"]
    assert row["peers"][0]["speedup"] == pytest.approx(1.25)


def test_saving_writes_what_json_prints(
    session: FakeSession, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "deep" / "run.json"
    code, out, err = run(capsys, "--seq", "16k", "--json", "--save", str(target))
    assert code == 0
    saved, printed = json.loads(target.read_text()), json.loads(out)
    assert saved.pop("started") <= printed.pop("started")
    assert saved == printed
    assert f"saved to {target}" in err
    assert [path.name for path in target.parent.iterdir()] == ["run.json"]


def test_a_name_is_saved_under_the_gpu() -> None:
    assert result_path("decode", "NVIDIA H200", Path("/p")) == Path("/p/benchmarks/results/h200/decode.json")
    assert result_path("d", "NVIDIA GeForce RTX 4090", Path("/p")) == Path("/p/benchmarks/results/rtx-4090/d.json")
    assert result_path("d", "Some GPU (rev 2)", Path("/p")).parent.name == "some-gpu-rev-2"


def test_csv_has_a_line_per_row_and_plain_numbers(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--seq", "16k", "--csv")
    header, *lines = csv.reader(out.splitlines())
    assert header[:3] == ["variant", "batch", "kv_len"]
    assert header[-2:] == ["SDPA cuDNN us", "SDPA flash us"]
    assert len(lines) == 2
    assert all(len(line) == len(header) for line in lines)
    assert float(lines[0][header.index("time_us")]) == pytest.approx(15.2557, abs=1e-3)


def test_markdown_is_a_table_and_the_facts(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--seq", "16k", "--markdown")
    lines = out.splitlines()
    assert lines[2].startswith("| variant | case | time µs | noise % |")
    assert lines[3].startswith("| --- | --- | ---: |")
    assert lines[4].startswith("| `attn_decode_split_kv_mma.bf16.d128` | 1 × 16k | 15.26 |")
    assert any(line.startswith("- repeat: `sparkctl bench --seq 16k --batch 1,8 ") for line in lines)
    assert [line.split(" --heads")[0] for line in lines[-3:-1]] == [
        "sparkctl bench --seq 16k --batch 1",
        "sparkctl bench --seq 16k --batch 8",
    ]


def test_without_a_device_it_says_so_and_names_the_estimate(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflow, "find_devices", lambda: ())
    monkeypatch.chdir(ROOT)
    code, out, err = run(capsys, "--seq", "16k")
    assert (code, out) == (3, "")
    assert err == (
        "error: bench needs a CUDA device and this machine shows none\n"
        "hint: sparkctl bench --estimate H200 prints floor times without one\n"
    )


AB = """\
attn_decode_split_kv_mma: stages=2 against stages=1, bf16, d128, 32/8 heads,
cold L2; case: batch × kv_len
         stages=1  stages=2
case           µs        µs  ratio     interval  verdict  splits  outputs
1 × 16k     16.78     15.26  1.100  1.100–1.100   faster      16  bits equal
8 × 16k     134.3     122.0  1.100  1.100–1.100   faster       2  bits equal
geometric mean of 2 ratios: 1.100, from 1.100 to 1.100; 2 faster; all bits equal

ratio: the time of stages=1 over the other's, round by round: above 1 the other
is faster. interval: of the ratio's median, at 99.5%. faster, slower: all of it
is more than 0.5% from 1; same: within 2%.
"""

AB_REPEAT = """\
repeat    sparkctl bench attn_decode_split_kv_mma --seq 16k --batch 1,8 --heads
          32/8 --head-dim 128 --dtype bf16 --l2 cold --peers none --budget 3
          --profile release --ab stages=1,2"""


def test_arms_of_an_axis_are_held_against_each_other(
    session: FakeSession, narrow: None, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "attn_decode_split_kv_mma", "--seq", "16k", "--ab", "stages=1,2")
    assert code == 0
    assert out == AB + FACT_LINES + AB_REPEAT
    assert err.startswith("[1/2] 1 × 16k")
    assert session.asked[:2] == [
        (session.asked[0][0], "attn_decode_split_kv_mma.bf16.d128.s1", 16),
        (session.asked[0][0], "attn_decode_split_kv_mma.bf16.d128", 16),
    ]


AB_OTHER_WAY = """\
attn_paged_decode_split_kv_mma: stages=1 against stages=2, bf16, d128, pages of
16, cold L2; case: batch × kv_len
              stages=2  stages=1
case                µs        µs  ratio     interval  verdict  splits  outputs
1 × 4k, 32/4      2.10      1.91  1.100  1.100–1.100   faster      16  12 differ
1 × 4k, 32/8      4.20      3.82  1.100  1.100–1.100   faster      16  12 differ
geometric mean of 2 ratios: 1.100, from 1.100 to 1.100; 2 faster; bits differ in
2 of 2 cases, by up to 0.0039

ratio: the time of stages=2 over the other's,"""


def test_the_first_value_is_the_base_and_outputs_that_differ_say_by_how_much(
    session: FakeSession, narrow: None, capsys: pytest.CaptureFixture[str]
) -> None:
    session.bits = Bits(12, 4096, 0.00390625)
    args = ("--ab", "stages=2,1", "--seq", "4k", "--batch", "1", "--page-size", "16", "--heads", "32/4,32/8")
    code, out, _ = run(capsys, *args)
    assert code == 0
    assert out.startswith(AB_OTHER_WAY)
    assert [(case.heads.num_kv_heads, case.page_size, splits) for case, _, splits in session.asked] == [
        (kv_heads, 16, 16) for kv_heads in (4, 4, 8, 8)
    ]


@pytest.mark.parametrize(
    ("base_us", "other_us", "verdict"),
    [(10.0, 10.01, "same"), (10.0, 9.0, "faster"), (10.0, 10.3, "slower"), (10.0, 9.96, "same")],
)
def test_the_verdict_is_of_the_later_arm(
    session: FakeSession, capsys: pytest.CaptureFixture[str], base_us: float, other_us: float, verdict: str
) -> None:
    session.tweak = lambda row: replace(row, series=series(base_us if row.arm == "stages=1" else other_us))
    _, out, _ = run(capsys, "--seq", "16k", "--batch", "1", "--ab", "stages=1,2", "--csv")
    header, line = csv.reader(out.splitlines())
    assert dict(zip(header, line, strict=True))["verdict"] == verdict


def test_each_later_value_has_a_table_of_its_own(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--seq", "16k", "--batch", "1", "--head-dim", "64", "--ab", "stages=4,2,1")
    headings = [line for line in out.splitlines() if " against " in line]
    assert [line.partition(",")[0] for line in headings] == [
        "attn_decode_split_kv_mma: stages=2 against stages=4",
        "attn_decode_split_kv_mma: stages=1 against stages=4",
    ]
    assert len({splits for _, _, splits in session.asked}) == 1  # those of the operator's own choice


def test_numbers_of_splits_are_arms_too_and_auto_is_the_planners(
    session: FakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run(capsys, "--seq", "16k", "--batch", "1", "--ab", "num_splits=auto,4,64")
    assert [splits for _, _, splits in session.asked] == [16, 4, 64]
    assert "num_splits=64 against num_splits=auto" in out
    named = ("--variant", "attn_decode_split_kv.bf16.d128")
    run(capsys, "--seq", "16k", "--batch", "1", "--ab", "num_splits=2,4", *named)
    assert [asked[1:] for asked in session.asked[3:]] == [("attn_decode_split_kv.bf16.d128", n) for n in (2, 4)]


def test_a_comparison_as_json_has_both_arms_samples_and_the_means(
    session: FakeSession, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "ab.json"
    args = ("--seq", "4k,16k", "--batch", "1", "--ab", "stages=1,2", "--json", "--save", str(target))
    code, out, _ = run(capsys, *args)
    assert code == 0
    record = json.loads(out)
    assert [(row["arm"], len(row["time"]["samples_us"])) for row in record["rows"]] == [
        ("stages=1", 20),
        ("stages=2", 20),
    ] * 2
    ab = record["ab"]
    assert (ab["name"], ab["values"], ab["confidence"]) == ("stages", ["1", "2"], 0.995)
    (mean,) = ab["means"]
    assert (mean["arm"], mean["against"], mean["cases"]) == ("stages=2", "stages=1", 2)
    assert mean["geometric_mean"] == pytest.approx(1.1)
    first = ab["comparisons"][0]
    assert (first["verdict"], first["rounds"], first["bits"]["equal"]) == ("faster", 20, True)
    assert first["low"] <= first["ratio"] <= first["high"]
    assert json.loads(target.read_text())["ab"] == ab


def test_a_comparison_as_csv_and_markdown(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    args = ("--seq", "16k", "--page-size", "64", "--ab", "stages=1,2")
    _, out, _ = run(capsys, *args, "--csv")
    header, *lines = csv.reader(out.splitlines())
    assert [len(line) for line in lines] == [len(header)] * 2
    first = dict(zip(header, lines[0], strict=True))
    assert (first["page_size"], first["base"], first["arm"], first["verdict"]) == (
        "64",
        "stages=1",
        "stages=2",
        "faster",
    )
    assert float(first["ratio"]) == pytest.approx(1.1)
    _, out, _ = run(capsys, *args, "--markdown")
    lines = out.splitlines()
    assert lines[0].startswith("attn_paged_decode_split_kv_mma: stages=2 against stages=1, bf16, d128, 32/8 heads,")
    assert lines[2].startswith("| case | stages=1 µs | stages=2 µs | noise % |")
    assert lines[4].startswith("| 1 × 16k | 16.78 | 15.26 | 0.2 0.2 | 96 | 20 | 1.100 |")
    assert lines[7] == "geometric mean of 2 ratios: 1.100, from 1.100 to 1.100; 2 faster; all bits equal"
    assert any(line.startswith("- repeat: `sparkctl bench --seq 16k") for line in lines)
    assert lines[-1] == "```"


def test_arms_have_no_peers_unless_they_are_asked_for(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    args = ("--seq", "16k", "--batch", "1", "--ab", "stages=1,2")
    assert "--peers none" in run(capsys, *args)[1]
    assert "--peers sdpa" in run(capsys, *args, "--peers", "sdpa")[1]


PAGED = """\
attn_paged_decode_split_kv_mma.bf16.d128, 32/8 heads, cold L2; case: batch ×
kv_len
                   time  noise           % of  % of          eager
case                 µs      %  TB/s  ceiling  peak  splits     µs
1 × 16k, page 1   15.27    0.2  4.40       96    92      16  20.27
1 × 16k, page 16  15.26    0.2  4.40       96    92      16  20.26

SDPA cuDNN did not run: not applicable, it takes no page table
SDPA flash did not run: not applicable, it takes no page table
"""


def test_a_peer_that_some_rows_do_not_have_keeps_its_column(
    session: FakeSession, narrow: None, capsys: pytest.CaptureFixture[str]
) -> None:
    def tweak(row: Row) -> Row:
        absent = PeerResult("other", None, "it broke")
        flex = PeerResult("flex", series(row.series.median_us * row.case.batch))
        return replace(row, peers=(flex,) if row.case.batch == 1 else (absent, flex))

    session.tweak = tweak
    _, out, _ = run(capsys, "--seq", "16k", "--peers", "flex")
    assert [line.split()[-1] for line in out.splitlines()[2:5]] == ["flex", "1.00×", "8.00×"]
    assert "other did not run on 8 × 16k, 32/8, d128, bf16: it broke" in out


MANY_PEERS = """\
attn_decode_split_kv_mma.bf16.d128, 32/8 heads, cold L2; case: batch × kv_len
          time  noise           % of  % of          eager
case        µs      %  TB/s  ceiling  peak  splits     µs
1 × 16k  15.26    0.2  4.40       96    92      16  20.26
8 × 16k  122.0    0.2  4.40       96    92       2  127.0

                          time  noise
case     library            µs      %       ×
1 × 16k  ours            15.26    0.2       –
         SDPA cuDNN      19.07    0.2   1.25×
         FA3             16.78    0.2   1.10×
         FlashInfer fa2  13.73    0.2   0.90×
         flex            183.1    0.2  12.00×
8 × 16k  ours            122.0    0.2       –
         SDPA cuDNN      152.6    0.2   1.25×
         FA3             134.3    0.2   1.10×
         FlashInfer fa2  109.8    0.2   0.90×
         flex             1465    0.2  12.00×

× is the peer's time over ours: above 1 ours is faster.
FlashInfer XQA did not run: no pages
"""


def test_more_than_two_peers_are_a_table_of_their_own(
    session: FakeSession, narrow: None, capsys: pytest.CaptureFixture[str]
) -> None:
    factors = {"SDPA cuDNN": 1.25, "FA3": 1.1, "FlashInfer fa2": 0.9, "FlashInfer XQA": None, "flex": 12.0}

    def tweak(row: Row) -> Row:
        ours = row.series.median_us
        peers = [
            PeerResult(name, None, "no pages") if factor is None else PeerResult(name, series(ours * factor))
            for name, factor in factors.items()
        ]
        return replace(row, peers=tuple(peers))

    session.tweak = tweak
    code, out, _ = run(capsys, "--seq", "16k", "--peers", "all")
    assert code == 0
    assert out.startswith(MANY_PEERS + "device")


def test_pages_of_several_sizes_are_rows_and_a_peer_that_ran_nowhere_has_no_column(
    session: FakeSession, narrow: None, capsys: pytest.CaptureFixture[str]
) -> None:
    reason = "not applicable, it takes no page table"
    session.tweak = lambda row: replace(row, peers=tuple(PeerResult(p.name, None, reason) for p in row.peers))
    code, out, err = run(capsys, "--seq", "16k", "--batch", "1", "--page-size", "1,16")
    assert code == 0
    assert out.startswith(PAGED + "device")
    assert "--page-size 1,16" in out
    assert err == "[1/2] 1 × 16k, 32/8, d128, bf16, pages of 1\n[2/2] 1 × 16k, 32/8, d128, bf16, pages of 16\n"


def test_contiguous_and_paged_rows_stand_in_one_run(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "--seq", "16k", "--batch", "1", "--page-size", "none,1,64")
    assert [(case.page_size, variant.partition(".")[0]) for case, variant, _ in session.asked] == [
        (None, "attn_decode_split_kv_mma"),
        (1, "attn_paged_decode_split_kv_mma"),
        (64, "attn_paged_decode_split_kv_mma"),
    ]


def test_a_kernel_that_takes_pages_only_gets_them_without_being_asked(
    session: FakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run(capsys, "attn_*decode_split_kv", "--seq", "4k", "--batch", "1")
    assert [(case.page_size, variant) for case, variant, _ in session.asked] == [
        (None, "attn_decode_split_kv.bf16.d128"),
        (16, "attn_paged_decode_split_kv.bf16.d128"),
    ]
    assert "attn_paged_decode_split_kv.bf16.d128, 32/8 heads, pages of 16, cold L2" in out


def test_the_page_size_is_in_json_and_csv(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    args = ("--seq", "4k", "--batch", "1", "--page-size", "none,16")
    rows = json.loads(run(capsys, *args, "--json")[1])["rows"]
    assert [row["case"]["page_size"] for row in rows] == [None, 16]
    assert rows[1]["bytes"] - rows[0]["bytes"] == 4 * (256 + 1)
    header, *lines = csv.reader(run(capsys, *args, "--csv")[1].splitlines())
    assert [line[header.index("page_size")] for line in lines] == ["", "16"]


FAPIPE = """\
fa_split_gqa: FAPIPE=1 against FAPIPE=0, bf16, d128, 32/8 heads, cold L2; case:
batch × kv_len
         FAPIPE=0  FAPIPE=1
case           µs        µs  ratio     interval  verdict  splits  outputs
1 × 16k     16.78     15.26  1.100  1.100–1.100   faster      SS  bits equal
geometric mean of 1 ratio: 1.100; 1 faster; all bits equal
"""


@pytest.mark.parametrize("kernel", [["fa_split_gqa"], []])
def test_a_run_time_flag_is_varied_by_the_call_whatever_the_environment_says(
    session: FakeSession,
    narrow: None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    kernel: list[str],
) -> None:
    monkeypatch.setenv("SPARKCTL_FLAG_FAPIPE", "0")
    code, out, _ = run(capsys, *kernel, "--seq", "16k", "--batch", "1", "--ab", "FAPIPE=off,1")
    assert code == 0
    assert [variant for _, variant, _ in session.asked] == ["fa_split_gqa.bf16.d128.s1", "fa_split_gqa.bf16.d128"]
    (splits,) = {splits for _, _, splits in session.asked}
    assert out.startswith(FAPIPE.replace("SS", str(splits)) + "\nratio: the time of FAPIPE=0 over")


def test_a_run_time_flag_is_varied_over_pages_too(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "fa_split_gqa", "--seq", "16k", "--batch", "1", "--ab", "FAPIPE=0,1", "--page-size", "16")
    assert [(case.page_size, variant) for case, variant, _ in session.asked] == [
        (16, "fa_split_gqa.bf16.d128.s1.p1"),
        (16, "fa_split_gqa.bf16.d128.p1"),
    ]


@pytest.mark.parametrize(
    ("environment", "args", "stages"),
    [
        (None, [], ["s1", "d128"]),
        ("0", [], ["s1"]),
        ("1", ["--set", "FAPIPE=0"], ["s1"]),
        ("0", ["--set", "FAPIPE=1"], ["d128"]),
    ],
)
def test_a_flag_that_is_set_narrows_the_variants_of_a_kernel_that_is_named(
    session: FakeSession,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    environment: str | None,
    args: list[str],
    stages: list[str],
) -> None:
    if environment is not None:
        monkeypatch.setenv("SPARKCTL_FLAG_FAPIPE", environment)
    _, out, _ = run(capsys, "fa_split_gqa", "--seq", "16k", "--batch", "1", "--where", "tile=14", *args)
    assert [variant.rpartition(".")[2] for _, variant, _ in session.asked] == stages
    value = "" if len(stages) == 2 else {"s1": "0", "d128": "1"}[stages[0]]
    assert (f", FAPIPE={value}" in out) == bool(value)
    assert (f"--set FAPIPE={value}" in out) == bool(value)


@pytest.mark.parametrize(
    ("args", "message", "hint"),
    [
        (["--ab", "FAPIPE=0,2"], "flag FAPIPE: '2' is not accepted", "0, 1"),
        (["--ab", "FAPIPE=0,off"], "--ab FAPIPE=0,off: 0 is written twice", ""),
        (["--ab", "FAPIP=0,1"], "--ab FAPIP: no axis and no flag", "did you mean 'FAPIPE'?"),
        (["--ab", "FAPIPE=0,1", "--set", "FAPIPE=1"], "--set FAPIPE=1 fixes what it varies", "leave out"),
        (["--ab", "stages=1,2", "--set", "FAPIPE=1"], "--set FAPIPE=1 fixes what it varies", "leave out"),
        (["--ab", "FAPIPE=0,1", "--where", "stages=2"], "--where stages=2 fixes what it varies", "leave out"),
        (
            ["--ab", "FAPIPE=0,1", "--variant", "fa_split_gqa.bf16.d128"],
            "the variant fa_split_gqa.bf16.d128 fixes what it varies",
            "leave out",
        ),
        (["--ab", "FAPIPE=0,1", "attn_decode_split_kv"], "it does not reach attn_decode_split_kv", "fa_split_gqa"),
        (["fa_split_gqa", "--where", "stages=2", "--set", "FAPIPE=0"], "FAPIPE=0 leaves no variant", ""),
    ],
)
def test_a_wrong_use_of_a_run_time_flag_says_what_is_wrong(
    session: FakeSession, capsys: pytest.CaptureFixture[str], args: list[str], message: str, hint: str
) -> None:
    code, out, err = run(capsys, *args)
    assert (code, out) == (2, "")
    assert message in err
    assert hint in err
    assert session.asked == []


@pytest.mark.parametrize(
    ("args", "message", "hint"),
    [
        (["--seq", "16q"], "'16q' is not a size", "16k"),
        (["--batch", "0"], "--batch: '0' is less than 1", "a key, a query and a sequence at least"),
        (["--seq", "4k,0"], "--seq: '0' is less than 1", "a key, a query and a sequence at least"),
        (["--estimate", "H200", "--seq", "0"], "--seq: '0' is less than 1", "a key, a query and a sequence at least"),
        (["--l2", "cold,cold"], "--l2: cold is written twice", "each value once"),
        (["--heads", "32/5"], "32 query heads cannot be shared by 5 kv heads", ""),
        (["--dtype", "bf61"], "--dtype: unknown value 'bf61'", "did you mean 'bf16'?"),
        (["--l2", "warm"], "--l2: unknown value 'warm'", "known: cold, hot"),
        (["--peers", "spda"], "unknown peer 'spda'", "did you mean 'sdpa'?"),
        (["--head-dim", "100"], "axis head_dim: unknown value '100'", "known: 32, 64, 96, 128, 192, 256"),
        (["attn_decode_split_mma"], "unknown kernel 'attn_decode_split_mma'", "did you mean"),
        (["attn_combine"], "bench has no cases for attn_combine", "it measures attn_decode_split_kv_mma,"),
        (["--where", "head_dim=64"], "--where head_dim", "--head-dim"),
        (["--where", "stage=2"], "unknown axis 'stage'", "did you mean 'stages'?"),
        (["--heads", "128/1"], "no decode kernel accepts it", "attn_decode_split_kv takes group 1..64, not 128"),
        (["--seq", "1025m"], "no decode kernel accepts it", "takes kv_len 0..1073741824, not 1074790400"),
        (["--batch", "65536"], "batch is at most 65535", ""),
        (["--json", "--csv"], "exclude each other", ""),
        (["--page-size", "0"], "--page-size: '0' is less than 1", "keys of a page"),
        (["--page-size", "16q"], "--page-size: '16q' is not a size", "keys of a page"),
        (["--page-size", ","], "--page-size is empty", ""),
        (["--page-size", "none,none"], "--page-size: none is written twice", "each value once"),
        (["--page-size", "16,none,16"], "--page-size: 16 is written twice", ""),
        (["--seq", "4k,4096"], "--seq: 4096 is written twice, as 4k too", ""),
        (["--batch", "1,8,1"], "--batch: 1 is written twice", ""),
        (["--heads", "32,32/32"], "--heads: 32/32 is written twice, as 32 too", ""),
        (["--head-dim", "128,128"], "--head-dim: 128 is written twice", ""),
        (["--dtype", "bf16,bf16"], "--dtype: bf16 is written twice", ""),
        (["--peers", "sdpa,sdpa"], "--peers: sdpa is written twice", ""),
        (["--page-size", "2m"], "no decode kernel accepts it", "takes page_size 1..1048576, not 2097152"),
        (
            ["attn_decode_split_kv", "--page-size", "16"],
            "--page-size: attn_decode_split_kv takes contiguous K and V only",
            "attn_paged_decode_split_kv_mma",
        ),
        (
            ["attn_decode_split_kv", "attn_paged_decode_split_kv", "--page-size", "16"],
            "--page-size: attn_decode_split_kv takes contiguous K and V only",
            "leave out --page-size",
        ),
        (["attn_decode_split_kv", "--page-size", "none,16"], "attn_decode_split_kv takes contiguous K and V only", ""),
        (["attn_paged_decode_split_kv", "--page-size", "none"], "takes K and V in pages only", "attn_decode_split_kv"),
        (["--where", "paged=1"], "--where paged=", "--page-size"),
        (["--ab", "stages"], "--ab stages: no values", "--ab stages=1,2"),
        (["--ab", "=1,2"], "--ab =1,2: no values", "--ab stages=1,2"),
        (["--ab", "stages=,"], "--ab stages=,: no values", ""),
        (["--ab", "stages=1"], "--ab stages=1: one value has nothing to be held against", ""),
        (["--ab", "stages=1,1"], "--ab stages=1,1: 1 is written twice", ""),
        (["--ab", "num_splits=2,02"], "2 is written twice", ""),
        (["--ab", "stages=1,3"], "--ab stages: unknown value '3'", "known: 1, 2, 4"),
        (["--ab", "stage=1,2"], "--ab stage: no axis and no flag", "did you mean 'stages'?"),
        (
            ["--ab", "nonsense=1,2"],
            "--ab nonsense: no axis and no flag",
            "num_splits, fast_math, min_blocks",
        ),
        (["--ab", "extra_host=a,b"], "--ab extra_host: a flag of kind host changes no kernel", "sparkctl flags"),
        (["--ab", "min_blocks=0,1"], "flag min_blocks: '0' is not accepted", "1..32"),
        (["--ab", "min_blocks=1,2", "--set", "min_blocks=3"], "--set min_blocks=3 fixes what it varies", "leave out"),
        (["--ab", "stages=1,2", "--ab", "block_kv=32,64"], "--ab is given twice", "one thing"),
        (["--ab", "stages=1,2", "--vs", "HEAD"], "--ab and --vs exclude each other", "two runs"),
        (["--vs", "no-such-rev"], "--vs no-such-rev: no such revision or library", "--vs HEAD~1"),
        (["--vs", "./nowhere"], "--vs ./nowhere: no manifest.json lies beside a library there", "a built library"),
        (["--ab", "page_size=1,64"], "--ab page_size: it makes up a case", "--page-size takes a list"),
        (["--ab", "num_splits=0,1"], "--ab num_splits: '0' is not accepted", "1 to 65535, or auto"),
        (["--ab", "num_splits=1,2", "--num-splits", "3"], "--num-splits fixes what it varies", "leave out"),
        (["--ab", "stages=1,2", "--where", "stages=2"], "--where stages=2 fixes what it varies", "leave out"),
        (
            ["--ab", "stages=1,2", "--variant", "attn_decode_split_kv_mma.bf16.d128"],
            "the variant attn_decode_split_kv_mma.bf16.d128 fixes what it varies",
            "leave out",
        ),
        (["--ab", "stages=1,2", "attn_decode_split_kv"], "it does not reach attn_decode_split_kv", "split_kv_mma"),
        (["--ab", "stages=1,4", "--head-dim", "256"], "no variant beside", "stages of its neighbours: 1, 2"),
        (
            ["--ab", "block_kv=32,128", "--head-dim", "64"],
            "attn_decode_split_kv_mma.bf16.d64.kv128 has block_kv=32",
            "64",
        ),
        (["--estimate", "H200", "--ab", "stages=1,2"], "--estimate takes no --ab:", ""),
        (["--save", "a/b"], "--save a/b: not a name", ".json"),
        (["--qo-len", "0"], "qo-len", ""),
        (["--estimate", "h300"], "unknown GPU 'h300'", "did you mean 'H200'?"),
        (["--estimate", "H200", "--csv"], "--estimate prints a table or --json", ""),
        (["--estimate", "H200", "--heads", "128/1"], "no decode kernel accepts it", "takes group 1..64, not 128"),
        (["--estimate", "H200", "--seq", "1025m"], "no decode kernel accepts it", "takes kv_len 0..1073741824"),
        (["--estimate", "H200", "--qo-len", "17"], "no decode kernel accepts it", "takes qo_len 1..16, not 17"),
        (["--estimate", "H200", "--head-dim", "100"], "axis head_dim: unknown value '100'", "known: 32"),
        (["--estimate", "H200", "zz*"], "--estimate takes no KERNEL: a floor follows from the case", "to measure"),
        (["--estimate", "H200", "attn_combine"], "--estimate takes no KERNEL:", "leave out --estimate"),
        (["--estimate", "H200", "--variant", "nope"], "--estimate takes no --variant:", ""),
        (["--estimate", "H200", "--where", "x"], "--estimate takes no --where:", ""),
        (["--estimate", "H200", "--where", "stages=3"], "--estimate takes no --where:", ""),
        (["--estimate", "H200", "--peers", "fa3"], "--estimate takes no --peers:", ""),
        (["--estimate", "H200", "--set", "nope=1"], "--estimate takes no --set:", ""),
        (["--estimate", "H200", "--profile", "zz"], "--estimate takes no --profile:", ""),
        (["--estimate", "H200", "--num-splits", "2", "--save", "x"], "takes no --num-splits, no --save:", ""),
        (["--estimate", "H200", "--l2", "hot", "--budget", "1"], "takes no --l2, no --budget:", ""),
    ],
)
def test_a_wrong_call_says_what_is_wrong_and_exits_2(
    session: FakeSession, capsys: pytest.CaptureFixture[str], args: list[str], message: str, hint: str
) -> None:
    code, out, err = run(capsys, *args)
    assert (code, out) == (2, "")
    assert message in err
    assert hint in err


ESTIMATE = """\
H200 (sm_90): 4.8 TB/s, 989.4 TFLOP/s dense bf16, 132 SMs, 50 MiB L2 (datasheet)
                                         memory  compute  floor
case                          MB  GFLOP      µs       µs     µs  bound by
1 × 4k, 32/8, d128, bf16    16.8   0.07    3.50     0.07   3.50  memory, fits L2
8 × 4k, 32/8, d128, bf16   134.3   0.54   27.99     0.54  27.99  memory
1 × 16k, 32/8, d128, bf16   67.1   0.27   13.98     0.27  13.98  memory
8 × 16k, 32/8, d128, bf16  537.0   2.15   111.9     2.17  111.9  memory
floor = max(bytes / bandwidth, flops / tensor rate); bytes: K, V, q and out once
each. Not a measurement.
occupancy, splits and waves: not known, no nvcc here"""


@pytest.fixture(autouse=True)
def no_nvcc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compiled for an estimate."""

    def read(*args: object) -> None:
        raise MissingTool("no nvcc here")

    monkeypatch.setattr(launch_estimate, "read_built_usage", read)


def test_floor_times_need_no_device_and_no_project(
    narrow: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, "--estimate", "h200")
    assert (code, err) == (0, "")
    assert out == ESTIMATE


LAUNCHES = """
attn_decode_split_kv_mma.bf16.d128: 201 registers, 2 blocks/SM, occupancy 12.5
%, limited by registers (nvcc 13.0.88)
case                       splits  blocks  waves
1 × 4k, 32/8, d128, bf16       16     128   0.48
8 × 4k, 32/8, d128, bf16        2     128   0.48
1 × 16k, 32/8, d128, bf16      16     128   0.48
8 × 16k, 32/8, d128, bf16       2     128   0.48
waves: blocks of the grid over those that the GPU holds at a time."""


def test_occupancy_splits_and_waves_stand_below_the_floors(
    one_tile: None, narrow: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(registry: Registry, names: Sequence[str], arch: Arch, progress: object) -> Usage:
        (variant,) = names
        occupied = occupancy(arch, threads=128, registers=201, static_smem=0, dynamic_smem=69632, barriers=1)
        return Usage("nvcc 13.0.88", {variant: Compiled(201, occupied)})

    monkeypatch.setattr(launch_estimate, "read_built_usage", read)
    code, out, _ = run(capsys, "--estimate", "h200")
    assert code == 0
    assert out == ESTIMATE.rpartition("\n")[0] + "\n" + LAUNCHES
    record = json.loads(run(capsys, "--estimate", "h200", "--json")[1])
    assert (record["compiler"], record["launch_missing"]) == ("nvcc 13.0.88", None)
    launch = record["rows"][0]["launch"]
    assert (launch["registers"], launch["num_splits"], launch["grid"]) == (201, 16, [8, 16, 1])


def test_floor_times_over_pages_count_their_tables(narrow: None, capsys: pytest.CaptureFixture[str]) -> None:
    args = ("--estimate", "h200", "--seq", "4k", "--batch", "1", "--page-size", "1,16")
    _, out, _ = run(capsys, *args)
    assert "bytes: K, V, q, out and page tables once each." in " ".join(out.split())
    rows = json.loads(run(capsys, *args, "--json")[1])["rows"]
    assert [row["bytes"] - 16_793_600 for row in rows] == [4 * 4097, 4 * 257]


def test_floor_times_as_json_say_their_source(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--estimate", "rtx4090", "--seq", "4k", "--batch", "1", "--json")
    record = json.loads(out)
    assert (record["schema_version"], record["kind"], record["gpu"]["name"]) == (1, "estimate", "RTX 4090")
    assert record["gpu"]["source"] == "datasheet"
    assert record["rows"][0]["floor_us"] == pytest.approx(16_793_600 / 1.008e6)


@pytest.mark.parametrize(
    "asked",
    [
        "--seq 4k,16k --page-size none,16",
        "attn_decode_split_kv_mma --seq 4k,1000 --where stages=1,4 --qo-len 4 --causal",
        "attn_paged_decode_split_kv --seq 16k --num-splits 3 --l2 hot",
        "--seq 1k --heads 32/8,32/4 --ab num_splits=auto,4",
        "attn_decode_split_kv_mma --seq 4k --ab stages=1,2",
    ],
)
def test_the_command_of_a_row_measures_that_row_and_no_other(
    session: FakeSession, capsys: pytest.CaptureFixture[str], asked: str
) -> None:
    _, out, _ = run(capsys, *asked.split(), "--json")
    rows = json.loads(out)["rows"]
    assert len(rows) == len(session.asked) > 1
    for row in {row["repeat"]: row for row in rows}.values():
        _, again, _ = run(capsys, *shlex.split(row["repeat"])[2:], "--json")
        found = json.loads(again)["rows"]
        assert [one for one in rows if one["repeat"] == row["repeat"]] == found


def test_every_run_is_recorded_but_one_with_faults(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "--seq", "16k", "--batch", "1")
    run(capsys, "--seq", "16k", "--batch", "1", "--json")
    session.tweak = lambda row: replace(row, series=series(row.series.median_us * 0.9))
    assert run(capsys, "--seq", "16k", "--batch", "1")[0] == 1
    code, out, _ = run(capsys, "--history", "attn_decode_split_kv_mma", "--json")
    rows = json.loads(out)["rows"]
    assert (code, len(rows)) == (0, 2)
    assert {(row["commit"], row["dirty"], row["num_splits"]) for row in rows} == {("0123456789ab", True, 16)}


def test_a_broken_history_is_a_warning_and_the_run_is_shown_and_saved(
    session: FakeSession, narrow: None, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    database = tmp_path / "data" / "bench.sqlite3"
    database.write_bytes(b"broken" * 1000)
    code, out, err = run(capsys, "--seq", "16k", "--save", str(tmp_path / "run.json"))
    assert code == 0
    assert out == NARROW + FACT_LINES + NARROW_REPEAT
    assert err.count("warning: not recorded in the history: ") == 1
    assert f"{database}: file is not a database" in err
    assert (tmp_path / "run.json").is_file()


def test_a_run_is_held_against_a_baseline_that_is_looked_for_first(
    session: FakeSession, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "before.json"
    run(capsys, "--seq", "16k", "--save", str(target))
    session.tweak = lambda row: replace(row, series=series(row.series.median_us * 1.1))
    code, out, _ = run(capsys, "--seq", "16k", "--baseline", str(target))
    assert code == 0
    assert [line.split()[-1] for line in out.splitlines() if line.startswith(("1 × 16k", "8 × 16k"))][2:] == [
        "slower"
    ] * 2
    measured = len(session.asked)
    code, _, err = run(capsys, "--seq", "16k", "--baseline", "yesterday")
    assert (code, len(session.asked)) == (2, measured)
    assert "no saved result 'yesterday'" in err
    code, _, err = run(capsys, "--seq", "16k", "--plot", str(tmp_path / "run.gif"))
    assert (code, len(session.asked)) == (2, measured)
    assert run(capsys, "--seq", "16k", "--plot", str(tmp_path / "run.svg"))[0] == 0
    assert (tmp_path / "run.svg").is_file()


def test_values_of_a_compiled_flag_and_revisions_are_arms_of_one_table(
    session: FakeSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(workflow, "open_arm_libraries", lambda registry, request, *_: asked.append(request) or {})
    monkeypatch.setattr(bench_vs, "find_commit", lambda root, name: "0123456789ab")
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run(capsys, "--seq", "16k", "--ab", "min_blocks=1,4")
    assert code == 0
    assert "         min_blocks  min_blocks\n                 =1          =4\n" in out
    code, out, _ = run(capsys, "--seq", "16k", "--vs", "HEAD~1")
    assert code == 0
    assert "attn_decode_split_kv_mma: revision=this tree against revision=01234567," in out
    assert "          revision    revision\n         =01234567  =this tree\n" in out
    assert " --vs\n" in out or " --vs HEAD~1" in out
    assert [(request.ab.name, request.vs, request.peers) for request in asked] == [
        ("min_blocks", None, ()),
        ("revision", "HEAD~1", ()),
    ]
