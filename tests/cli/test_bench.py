"""`sparkctl bench`: screens, refusals and records, measured by a session that is made up."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sparkctl.arch import Arch
from sparkctl.bench.axes import DecodeCase
from sparkctl.bench.facts import DeviceFacts
from sparkctl.bench.record import result_path
from sparkctl.bench.results import Ceiling, PeerResult, Row, Sample, Series, Stamp
from sparkctl.bench.traffic import decode_traffic
from sparkctl.cli.app import main
from sparkctl.ops.call import DecodeCall
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
                PeerResult("SDPA flash", series(time_us * 1.5)),
            ),
            error="0.50 of what is allowed",
        )


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    """A made-up device; the library is a manifest of what the plan asks for."""
    fake = FakeSession()

    def open_fake(
        registry: object, request: object, plan: workflow.BenchPlan, arch: object, progress: object
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
        manifest = Manifest("libsparkctl.so", "cuda", "sm_90", "release", {}, "d1", "nvcc 13.0.88", built)
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
    assert [(case.kv_len, variant) for case, variant, _ in session.asked] == [
        (4096, "attn_decode_split_kv_mma.bf16.d128.s1"),
        (4096, "attn_decode_split_kv_mma.bf16.d128.s4"),
        (16384, "attn_decode_split_kv_mma.bf16.d128.s1"),
        (16384, "attn_decode_split_kv_mma.bf16.d128.s4"),
    ]
    assert "--where stages=1,4" in out
    headings = [line for line in out.splitlines() if line.startswith("attn_")]
    assert [line.partition(",")[0][-2:] for line in headings] == ["s1", "s4"]


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
    assert (record["schema_version"], record["kind"]) == (1, "bench")
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
    assert lines[-1].startswith("- repeat: `sparkctl bench --seq 16k ")


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


@pytest.mark.parametrize(
    ("args", "message", "hint"),
    [
        (["--seq", "16q"], "'16q' is not a size", "16k"),
        (["--batch", "0"], "'0' is less than 1", ""),
        (["--heads", "32/5"], "32 query heads cannot be shared by 5 kv heads", ""),
        (["--dtype", "bf61"], "--dtype: unknown value 'bf61'", "did you mean 'bf16'?"),
        (["--l2", "warm"], "--l2: unknown value 'warm'", "known: cold, hot"),
        (["--peers", "spda"], "unknown peer 'spda'", "did you mean 'sdpa'?"),
        (["--head-dim", "100"], "axis head_dim: unknown value '100'", "known: 32, 64, 96, 128, 192, 256"),
        (["attn_decode_split_mma"], "unknown kernel 'attn_decode_split_mma'", "did you mean"),
        (["attn_combine"], "bench has no cases for attn_combine", "family decode"),
        (["--where", "head_dim=64"], "--where head_dim", "--head-dim"),
        (["--where", "stage=2"], "unknown axis 'stage'", "did you mean 'stages'?"),
        (["--heads", "128/1"], "no decode kernel accepts it", "attn_decode_split_kv takes group 1..64, not 128"),
        (["--seq", "1025m"], "no decode kernel accepts it", "takes kv_len 0..1073741824, not 1074790400"),
        (["--batch", "65536"], "batch is at most 65535", ""),
        (["--json", "--csv"], "exclude each other", ""),
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
each. Not a measurement."""


def test_floor_times_need_no_device_and_no_project(
    narrow: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, "--estimate", "h200")
    assert (code, err) == (0, "")
    assert out == ESTIMATE


def test_floor_times_as_json_say_their_source(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--estimate", "rtx4090", "--seq", "4k", "--batch", "1", "--json")
    record = json.loads(out)
    assert (record["schema_version"], record["kind"], record["gpu"]["name"]) == (1, "estimate", "RTX 4090")
    assert record["gpu"]["source"] == "datasheet"
    assert record["rows"][0]["floor_us"] == pytest.approx(16_793_600 / 1.008e6)
