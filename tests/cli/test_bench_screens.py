"""`sparkctl bench` from the command line to the screen, on a fake device that plays samples of an H200 back.

The screens are files in tests/data/screens/bench. UPDATE_SCREENS=1 writes them anew.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fake_bench import ROOT, FakeBench
from fake_device import ILLEGAL

from sparkctl.arch import Arch
from sparkctl.bench.measure import WARM_UP_S
from sparkctl.bench.peers import PEERS
from sparkctl.bench.results import Sample, Stamp
from sparkctl.bench.saved import parse_run
from sparkctl.cli import bench as command
from sparkctl.cli.app import main
from sparkctl.registry import Variant, find_project, load_registry, select_variants
from sparkctl.workflows import bench as workflow
from sparkctl.workflows import bench_plan

SCREENS = ROOT / "tests" / "data" / "screens" / "bench"
SMALL = "--heads 8/2 --head-dim 64"
MMA = "attn_decode_split_kv_mma.bf16.d64"
REGISTRY = functools.cache(lambda: load_registry(find_project(ROOT)))

SELECTED: dict[str, list[Variant]] = {}


def select_once(*args: Any, **options: Any) -> list[Variant]:
    """Every test asks for the same few."""
    key = repr((args[1:], sorted(options.items())))
    if key not in SELECTED:
        SELECTED[key] = list(select_variants(*args, **options))
    return SELECTED[key]


Show = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, one_tile: None) -> FakeBench:
    fake = FakeBench()
    monkeypatch.setattr(workflow, "find_bench_arch", lambda: Arch(9, 0))
    monkeypatch.setattr(workflow, "open_cuda_bench", fake.open)
    monkeypatch.setattr(workflow, "read_stamp", lambda root: Stamp("0123456789ab", False))
    monkeypatch.setattr(workflow, "find_devices", lambda: ("a device",))
    monkeypatch.setattr(command, "load_project", lambda cli: REGISTRY())
    monkeypatch.setattr(bench_plan, "select_variants", select_once)
    monkeypatch.setitem(PEERS, "sdpa", fake.sdpa)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(ROOT)
    return fake


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Show:
    """Runs a command line at a width and holds what it prints against the file of that name."""

    def run(name: str, line: str, width: int = 80) -> tuple[int, str, str]:
        monkeypatch.setenv("COLUMNS", str(width))
        code = main(["bench", *shlex.split(line)])
        out, err = capsys.readouterr()
        text = f"$ sparkctl bench {trimmed(line)}\n{trimmed(out)}\n--- stderr\n{trimmed(err)}\n--- exit {code}\n"
        file = SCREENS / f"{name}.{width}.txt"
        if os.environ.get("UPDATE_SCREENS"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert text == file.read_text(encoding="utf-8")
        assert width == 1000 or max(map(len, trimmed(out).splitlines()), default=0) <= width
        return code, out, err

    return run


def trimmed(text: str) -> str:
    """Without what differs from run to run: folders, times of day, spaces at the ends of lines."""
    text = re.sub(r"/\S*/(\w+\.json)", r"\1", text)
    text = re.sub(r"20\d\d-\d\d-\d\dT[\d:]+\+00:00", "STARTED", text)
    return "\n".join(line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize("width", [80, 120])
def test_rows_beside_ceilings_and_peers(bench: FakeBench, show: Show, width: int) -> None:
    code, _, _ = show("rows", f"--seq 64,256 --batch 1,8 {SMALL}", width)
    assert code == 0


@pytest.mark.parametrize("width", [80, 120])
def test_cold_and_hot_l2_are_columns(bench: FakeBench, show: Show, width: int) -> None:
    code, out, _ = show("cold_and_hot", f"--seq 64,256 --batch 1 {SMALL} --l2 cold,hot", width)
    assert code == 0
    assert "hot L2" in out


def test_hot_l2_alone(bench: FakeBench, show: Show) -> None:
    assert show("hot", f"--seq 64 --batch 1 {SMALL} --l2 hot --peers none")[0] == 0


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    ("name", "record", "arms"),
    [
        ("ab_stages", "ab_stages.json", "attn_decode_split_kv_mma --ab stages=1,2"),
        ("ab_fapipe", "ab_fapipe.json", "fa_split_gqa --ab FAPIPE=0,1"),
    ],
)
def test_arms_held_against_each_other(
    bench: FakeBench, show: Show, name: str, record: str, arms: str, width: int
) -> None:
    bench.player.record = record
    code, out, _ = show(name, f"{arms} --seq 64,256 --batch 1,8 {SMALL}", width)
    assert code == 0
    assert "geometric mean of 4 ratios" in out


@pytest.mark.parametrize("form", ["--markdown", "--csv"])
def test_for_a_pull_request_and_for_a_program(bench: FakeBench, show: Show, form: str) -> None:
    assert show(form[2:], f"--seq 64 --batch 1,8 {SMALL} --l2 cold,hot {form}", 1000)[0] == 0
    bench.player.record = "ab_stages.json"
    arms = "attn_decode_split_kv_mma --ab stages=1,2"
    assert show(f"ab_{form[2:]}", f"{arms} --seq 64 --batch 1 {SMALL} {form}", 1000)[0] == 0


def test_json_and_save_hold_every_sample(bench: FakeBench, show: Show, tmp_path: Path) -> None:
    target = tmp_path / "run.json"
    line = f"--seq 64 --batch 1 {SMALL} --json --save {target}"
    code = main(["bench", *shlex.split(line)])
    assert code == 0
    record = json.loads(target.read_text(encoding="utf-8"))
    jsonschema.validate(record, json.loads((ROOT / "docs" / "bench.schema.json").read_text(encoding="utf-8")))
    assert parse_run(record).environment.gemm is not None
    assert re.fullmatch(r"20\d\d-.*", record.pop("started"))
    assert record["rows"][0].pop("error").endswith("of what is allowed")
    file = SCREENS / "record.json"
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    if os.environ.get("UPDATE_SCREENS"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")
    row = record["rows"][0]
    assert row["time"]["samples_us"][:3] == pytest.approx([8.67, 8.67, 8.67], rel=0.02)
    assert record["environment"]["gemm"]["tflops"] == pytest.approx(700, rel=0.01)
    assert (record["interrupted"], record["planned_rows"], record["failures"]) == (False, 1, [])


@pytest.mark.parametrize("width", [80, 120])
def test_ctrl_c_keeps_the_rows_so_far_and_says_so(bench: FakeBench, show: Show, width: int, tmp_path: Path) -> None:
    def interrupt(name: str, index: int) -> None:
        if bench.player.case is not None and bench.player.case.batch == 8 and name == "SDPA flash":
            signal.raise_signal(signal.SIGINT)

    bench.player.on_sample = interrupt
    target = tmp_path / "part.json"
    code, out, _ = show("interrupted", f"--seq 64,256 --batch 1,8 {SMALL}", width)
    assert code == 130
    assert "interrupted: 1 of 4 rows were measured" in out
    if width == 80:
        assert main(["bench", *shlex.split(f"--seq 64 --batch 1,8 {SMALL} --save {target} -q")]) == 130
        record = json.loads(target.read_text(encoding="utf-8"))
        assert (record["interrupted"], record["planned_rows"], len(record["rows"])) == (True, 2, 1)


def test_ctrl_c_before_the_first_row_has_nothing_to_keep(bench: FakeBench, show: Show, tmp_path: Path) -> None:
    bench.player.on_sample = lambda name, index: signal.raise_signal(signal.SIGINT)
    code, out, _ = show("interrupted_early", f"--seq 64 --batch 1,8 {SMALL} --save {tmp_path}/none.json")
    assert (code, out) == (130, "")
    assert not (tmp_path / "none.json").exists()


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_two_batches_of_16k_and_sdpa_take_less_than_a_minute_of_the_device(
    bench: FakeBench, capsys: pytest.CaptureFixture[str], noise: float
) -> None:
    """Quiet samples end a row by precision, noisy ones by the budget; the made-up device plays those of 16k keys."""
    bench.warm_up_s = WARM_UP_S
    played = bench.player.sample_of

    def noisy(name: str, index: int) -> Sample:
        sample = played(name, index)
        return replace(sample, time_us=sample.time_us * (1 + noise * (index * 7 % 13) / 13))

    bench.device.sample_of = noisy
    assert main(["bench", *shlex.split(f"--seq 256 --batch 1,8 {SMALL} --json -q")]) == 0
    record = json.loads(capsys.readouterr().out)
    assert [peer["name"] for peer in record["rows"][0]["peers"]] == ["SDPA cuDNN", "SDPA flash"]
    assert {row["time"]["stop"] for row in record["rows"]} == {"budget" if noise else "precise"}
    assert 1.0 < max(bench.device.host_us, bench.device.device_us) * 1e-6 < 60


@pytest.mark.parametrize("width", [80, 120])
def test_a_case_that_does_not_fit_is_one_line_and_the_others_appear(bench: FakeBench, show: Show, width: int) -> None:
    bench.device.free = 1_400_000
    code, out, _ = show("does_not_fit", f"--seq 64,256 --batch 1,8 {SMALL} --peers none", width)
    assert code == 1
    assert out.count("no result:") == 1
    text = "needs 2.1 MB (2 × 1.1 MB); 1.4 MB are free on cpu, of which 90% may be taken: 1.3 MB"
    assert text in " ".join(out.split())


def test_where_no_case_fits_there_is_no_table(bench: FakeBench, show: Show) -> None:
    bench.device.free = 3_000
    code, out, _ = show("none_fits", f"--seq 64,256 --batch 1 {SMALL} --peers none")
    assert (code, out) == (1, "")


@pytest.mark.parametrize("phase", ["call", "capture", "replay"])
def test_a_peer_that_crashes_is_a_reason_on_its_row(bench: FakeBench, show: Show, phase: str) -> None:
    bench.device.faults[phase, "SDPA flash"] = RuntimeError("no kernel image is available\n  at a line of its own")
    code, out, _ = show("peer_crashes", f"--seq 64 --batch 1,8 {SMALL}")
    assert code == 0
    assert "SDPA flash did not run: RuntimeError: no kernel image is available" in out


@pytest.mark.parametrize("width", [80, 120])
def test_a_lost_device_ends_the_run_with_one_line(bench: FakeBench, show: Show, width: int) -> None:
    def lose(name: str, index: int) -> None:
        if bench.player.case is not None and bench.player.case.kv_len == 256 and name == "SDPA flash":
            bench.device.faults["synchronize", ""] = RuntimeError(ILLEGAL)

    bench.player.on_sample = lose
    code, _, err = show("lost", f"--seq 64,256 --batch 1 {SMALL}", width)
    assert code == 1
    assert err.count("\nerror:") == 1


def test_a_device_that_is_gone_is_exit_3(bench: FakeBench, show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflow, "find_devices", lambda: ())
    bench.device.faults["replay", MMA + ".s4"] = RuntimeError("CUDA error: unspecified launch failure")
    assert show("gone", f"--seq 64 --batch 1,8 {SMALL} --peers none")[0] == 3


def test_a_wrong_output_of_ours_is_an_error_of_its_row(bench: FakeBench, show: Show) -> None:
    decode = bench.library.module.decode

    def wrong(*args: object) -> None:
        decode(*args)
        if args[0] == bench.library.index[MMA]:
            args[6].mul_(float("nan"))  # type: ignore[attr-defined]

    bench.library.module.decode = wrong
    line = f"attn_decode_split_kv_mma --where stages=2,4 --where block_kv=64 --where rows=8 --seq 64 --batch 1 {SMALL}"
    code, out, _ = show("wrong_output", f"{line} --peers none")
    assert code == 1
    assert f"no result: {MMA}, 1 × 64, 8/2, d64, bf16: NaN in" in " ".join(out.split())


def test_a_result_above_the_ceiling_is_an_error(bench: FakeBench, show: Show) -> None:
    bench.player.speed[MMA + ".s4"] = 0.5
    assert show("above_ceiling", f"--seq 256 --batch 8 {SMALL} --peers none")[0] == 1


def test_throttled_samples_are_marked_and_counted(bench: FakeBench, show: Show) -> None:
    bench.player.throttle[MMA + ".s4"] = ("power cap",)
    code, out, _ = show("throttled", f"--seq 64 --batch 1 {SMALL} --peers none --budget 0.2")
    assert code == 0
    assert "nan" not in out.lower()


def test_a_device_too_small_for_the_gemm_says_so(bench: FakeBench, show: Show) -> None:
    bench.device.faults["call", "gemm"] = RuntimeError("CUDA out of memory. Tried to allocate 128.00 MiB. GPU 0 …")
    assert show("no_gemm", f"--seq 64 --batch 1 {SMALL} --peers none")[0] == 0


@pytest.mark.parametrize("width", [80, 120])
def test_what_options_cost_beside_the_plain_call(bench: FakeBench, show: Show, width: int) -> None:
    line = f"--seq 256 --batch 1,8 {SMALL} --options lse,window=100,window=100+sinks"
    code, out, _ = show("options", line, width)
    assert code == 0
    assert "window=100 against plain" in out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--options lse --ab stages=1,2", "--options excludes --ab and --vs"),
        ("--options lse --peers sdpa", "--options takes no --peers"),
        ("--options lsee", "--options: unknown option 'lsee'"),
        ("--options lse --estimate H200", "--estimate takes no --options"),
    ],
)
def test_options_that_cannot_be_are_one_error(
    bench: FakeBench, capsys: pytest.CaptureFixture[str], line: str, message: str
) -> None:
    assert main(["bench", *shlex.split(line)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err


def test_a_run_of_options_reads_back_and_repeats(
    bench: FakeBench, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "run.json"
    assert main(["bench", *shlex.split(f"--seq 256 --batch 8 {SMALL} --options lse --save {target} -q")]) == 0
    record = json.loads(target.read_text(encoding="utf-8"))
    jsonschema.validate(record, json.loads((ROOT / "docs" / "bench.schema.json").read_text(encoding="utf-8")))
    assert [row["arm"] for row in record["rows"]] == ["plain", "lse"]
    assert record["rows"][1]["bytes"] - record["rows"][0]["bytes"] == 4 * 8 * 8
    assert parse_run(record).comparisons[0].other.arm == "lse"
    assert record["rows"][1]["repeat"].endswith("--options lse")
    capsys.readouterr()
    assert main(["bench", *shlex.split(record["rows"][1]["repeat"])[2:], "-q", "--json"]) == 0
