"""`sparkctl profile`: whole screens over a script in ncu's place, which prints a table written by hand."""

# ruff: noqa: E501 - screens are as wide as they are

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from sparkctl.arch import Arch
from sparkctl.cli.app import main
from sparkctl.toolchain import Device

RAW = Path(__file__).parents[1] / "data" / "ncu" / "raw.csv"
VARIANT = "attn_decode_split_kv_mma.bf16.d64"
CASE = "model_shape-b1-kv300-h8-g4-q1-sauto-lse"
# Keeps what it was called with, checks that the case file is there, and prints what ncu would.
NCU = f"""#!/bin/sh
echo "$@" > "$KEPT/argv"
for word; do [ "$before" = --log-file ] && log="$word"; before="$word"; done
head -n 1 "$before" > "$KEPT/case"
cp {RAW} "$log"
echo "pass 0.4331 {VARIANT} {CASE}"
"""
FAILING = """#!/bin/sh
for word; do [ "$before" = --log-file ] && log="$word"; before="$word"; done
cat > "$log" <<'END'
{log}
END
echo '{said}'
exit {code}
"""


@dataclass
class Screen:
    code: int
    out: str
    err: str


@dataclass
class Bench:
    folder: Path
    call: Callable[..., Screen]
    built: list[str]

    def write_ncu(self, text: str) -> None:
        (self.folder / "ncu").write_text(text, encoding="utf-8")
        (self.folder / "ncu").chmod(0o755)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Bench:
    """A machine with a device, ncu and a runner, none of them real."""
    built: list[str] = []

    def build(registry: object, variants: list[object], **kwargs: object) -> Path:
        assert kwargs["runner"] and kwargs["backend"] == "cuda"
        built.extend(getattr(variant, "name") for variant in variants)  # noqa: B009
        return tmp_path / "build"

    device = Device(0, "NVIDIA H200", Arch(9, 0), 132, 1 << 37, "580")
    for module in ("profile", "test"):
        monkeypatch.setattr(f"sparkctl.workflows.{module}.find_devices", lambda: (device,))
    monkeypatch.setattr("sparkctl.workflows.profile.ensure_built", build)
    monkeypatch.setenv("SPARKCTL_NCU", str(tmp_path / "ncu"))
    monkeypatch.setenv("KEPT", str(tmp_path))

    def call(*words: str, columns: int | None = None) -> Screen:
        monkeypatch.setenv("COLUMNS", str(columns)) if columns else monkeypatch.delenv("COLUMNS", raising=False)
        capsys.readouterr()
        code = main(["profile", *words])
        captured = capsys.readouterr()
        return Screen(code, "\n".join(line.rstrip() for line in captured.out.splitlines()), captured.err)

    made = Bench(tmp_path, call, built)
    made.write_ncu(NCU)
    return made


def test_the_few_metrics_that_matter_of_each_launch(bench: Bench) -> None:
    result = bench.call(VARIANT, "-k", CASE, columns=80)
    assert (result.code, result.err) == (0, "")
    assert (
        result.out
        == f"""\
{VARIANT}  sm_90  NVIDIA H200
case {CASE}

attn_decode_split_kv_mma_kernel<bf16, head_dim=64, stages=2, block_kv=64, 0>
grid (8, 1, 16), block (128, 1, 1)
  duration            12.35 µs
  DRAM                16.02 MiB read, 0.25 MiB written, 41.2 % of peak
  L2 hit rate         12.0 %
  achieved occupancy  24.8 %
  tensor pipe         8.1 % of peak
  stalls              long scoreboard 4.25, barrier 1.10, wait 0.88 cycles an
                      instruction

attn_combine_kernel<bf16, head_dim=64>  grid (32, 1, 1), block (128, 1, 1)
  duration            3.10 µs
  DRAM                1.00 MiB read, 0.01 MiB written, 7.5 % of peak
  L2 hit rate         68.5 %
  achieved occupancy  6.2 %
  tensor pipe         0.0 % of peak
  stalls              long scoreboard 9.50, barrier 2.00, wait 1.25 cycles an
                      instruction

one launch alone, caches flushed ahead of each pass, clocks as they are:
sparkctl bench is for times"""
    )
    assert max(map(len, bench.call(VARIANT, "-k", CASE, columns=120).out.splitlines())) <= 120


def test_ncu_gets_the_runner_one_case_file_and_the_metrics(bench: Bench) -> None:
    bench.call(VARIANT, "-k", CASE)
    words = (bench.folder / "argv").read_text(encoding="utf-8").split()
    assert words[:6] == ["--csv", "--page", "raw", "--print-units", "base", "--log-file"]
    assert words[7:13] == ["--clock-control", "none", "--cache-control", "all", "--section", "WarpStateStats"]
    assert words[13] == "--metrics" and "gpu__time_duration.sum" in words[14].split(",")
    assert words[15] == str(bench.folder / "build" / "sparkctl-runner")
    assert len(words) == 17 and not Path(words[16]).exists()
    assert (bench.folder / "case").read_text(encoding="utf-8") == "sparkctl-case 1\n"
    assert bench.built == [VARIANT, "attn_combine.bf16.d64"]


def test_without_k_the_case_is_one_of_real_size(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparkctl.workflows.profile.export_case", lambda *_: None)
    monkeypatch.setattr("sparkctl.workflows.profile.encode_case", lambda _: b"sparkctl-case 1\n")
    assert "\ncase model_shape-b1-kv4096-h8-g4-q1-sauto-lse\n" in bench.call(VARIANT).out


def test_own_metrics_take_the_place_of_the_usual_ones(bench: Bench) -> None:
    result = bench.call(
        VARIANT, "-k", CASE, "--metrics", "smsp__issue_active.avg.per_cycle_active,gpu__time_duration.sum"
    )
    words = (bench.folder / "argv").read_text(encoding="utf-8").split()
    assert "--section" not in words
    assert words[words.index("--metrics") + 1] == "smsp__issue_active.avg.per_cycle_active,gpu__time_duration.sum"
    assert "\n  gpu__time_duration.sum" in result.out and "12,352 ns\n" in result.out
    assert "achieved occupancy" not in result.out


def test_json_has_numbers_and_every_metric(bench: Bench) -> None:
    data = json.loads(bench.call(VARIANT, "-k", CASE, "--json").out)
    assert (data["schema_version"], data["variant"], data["case"], data["device"]) == (1, VARIANT, CASE, "NVIDIA H200")
    decode, _ = data["launches"]
    assert (decode["duration_ns"], decode["dram_read_bytes"], decode["l2_hit_percent"]) == (12352, 16793600, 12.04)
    assert decode["stalls"][0] == {"reason": "long_scoreboard", "cycles_per_instruction": 4.25}
    gmma = decode["metrics"]["smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio"]
    assert gmma == {"value": None, "unit": "inst", "text": "n/a"}


PERMISSION = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target device 0."


@pytest.mark.parametrize(
    ("log", "said", "code", "error"),
    [
        (
            PERMISSION,
            "pass",
            1,
            "error: this user may not read the GPU's performance counters (ERR_NVGPUCTRPERM)\nhint: run it as root, or ",
        ),
        (PERMISSION, "pass", 0, "error: this user may not read the GPU's performance counters (ERR_NVGPUCTRPERM)\n"),
        (
            "==ERROR== Failed to find metric dram__x.sum",
            "",
            1,
            "error: ncu knows no metric dram__x.sum on this device\nhint: ncu --query-metrics",
        ),
        (
            "==PROF== Connected",
            f"FAIL 3.1 {VARIANT} {CASE}: out at batch 0",
            1,
            f"error: the case failed under ncu: FAIL 3.1 {VARIANT} {CASE}: out at batch 0\n",
        ),
        ("==WARNING== No kernels were profiled.", "pass", 0, "error: ncu saw no kernel\n"),
        ("==PROF== Connected", "pass", 0, "error: ncu printed no table\n"),
    ],
)
def test_what_ncu_could_not_do_is_explained(bench: Bench, log: str, said: str, code: int, error: str) -> None:
    bench.write_ncu(FAILING.format(log=log, said=said, code=code))
    result = bench.call(VARIANT, "-k", CASE)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(error)


def test_another_failure_is_shown_whole(bench: Bench) -> None:
    bench.write_ncu(FAILING.format(log="==ERROR== Something else", said="out of luck", code=9))
    result = bench.call(VARIANT, "-k", CASE)
    assert result.code == 1
    assert "exit code 9" in result.err and "out of luck" in result.err and "==ERROR== Something else" in result.err


def test_a_table_cut_short_is_an_error(bench: Bench) -> None:
    log = RAW.read_text(encoding="utf-8")[:-100]
    bench.write_ncu(FAILING.format(log=log, said="pass", code=0))
    assert bench.call(VARIANT, "-k", CASE).err == "error: ncu's table ends early\n"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            ("attn_combine", "--head-dim", "64"),
            "error: one variant is profiled at a time, 2 are selected\nhint: choose one: attn_combine.bf16.d64, attn_combine.fp16.d64\n",
        ),
        ((VARIANT, "-k", "group_sizes and not lse"), "error: no case is selected"),
        (
            (VARIANT, "-k", "group_sizes"),
            "error: one case is profiled at a time, -k selects 8\nhint: choose one: group_sizes-",
        ),
        ((VARIANT, "-k", "huge_batch"), "error: the selected cases cannot be written as files\n"),
        ((VARIANT, "--metrics", ","), "error: --metrics names none\n"),
        (("attn_combine.bf16.d65",), "error: unknown variant 'attn_combine.bf16.d65'\n"),
    ],
)
def test_wrong_calls_build_nothing(bench: Bench, words: tuple[str, ...], error: str) -> None:
    result = bench.call(*words)
    assert (result.code, result.out, bench.built) == (2, "", [])
    assert result.err.startswith(error)


def test_without_a_device_nothing_is_built(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparkctl.workflows.profile.find_devices", lambda: ())
    result = bench.call(VARIANT)
    assert (result.code, result.out, bench.built) == (3, "", [])
    assert result.err == "error: no CUDA device\nhint: sparkctl regs and sparkctl sass need none\n"


def test_without_ncu_nothing_is_built(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARKCTL_NCU")
    monkeypatch.setenv("PATH", "/none")
    monkeypatch.setattr(
        "sparkctl.workflows.profile.find_ncu",
        lambda environ: __import__("sparkctl.toolchain.ncu").toolchain.ncu.find_ncu(
            environ, installed=bench.folder / "opt"
        ),
    )
    result = bench.call(VARIANT)
    assert (result.code, result.out, bench.built) == (3, "", [])
    assert result.err.startswith("error: no ncu (Nsight Compute): looked at SPARKCTL_NCU (not set), PATH, ")


def test_an_interrupt_ends_ncu_too(bench: Bench) -> None:
    bench.write_ncu('#!/bin/sh\necho $$ > "$KEPT/pid"\nexec sleep 60\n')

    def interrupt() -> None:
        while not (bench.folder / "pid").exists():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    began = time.monotonic()
    result = bench.call(VARIANT, "-k", CASE)
    assert (result.code, result.out, result.err) == (130, "", "error: interrupted\n")
    assert time.monotonic() - began < 50  # it would sleep for 60
    with pytest.raises(ProcessLookupError):
        os.kill(int((bench.folder / "pid").read_text(encoding="utf-8")), 0)
