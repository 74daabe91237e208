"""`sparkctl accuracy`: whole screens of reports that are made up, refusals, and one real run on the emulator."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from sparkctl.bench.ab import Bits
from sparkctl.bench.results import Stamp
from sparkctl.cli.app import main
from sparkctl.testing.arms import AttentionArm
from sparkctl.testing.logits import NOTHING_SCORED, LogitScore
from sparkctl.testing.precision import Precision
from sparkctl.workflows import accuracy as workflow
from sparkctl.workflows.accuracy import AccuracyReport, ArmReport
from sparkctl.workflows.accuracy_plan import AccuracyRequest

GOOD = Precision(0.00164, 0.0031, 0.41)
SCORE = LogitScore(96, 0.9896, 0.000188, 0.00118)


@dataclass(frozen=True)
class Screen:
    code: int
    out: str
    err: str


Run = Callable[..., Screen]


def arm(label: str, precision: Precision = GOOD, bits: Bits | None = None, score: LogitScore = SCORE) -> ArmReport:
    return ArmReport(AttentionArm(label, "decode", kernel="fa_split_gqa"), precision, bits, score)


ARMS = (arm("fa_split_gqa, FAPIPE=0"), arm("fa_split_gqa, FAPIPE=1", bits=Bits(0, 6144, 0.0)))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*words: str, arms: tuple[ArmReport, ...] = ARMS, columns: int = 80) -> Screen:
        def report(registry: Any, request: AccuracyRequest, **rest: Any) -> AccuracyReport:
            for number, each in enumerate(arms, 1):
                rest["at_arm"](number, len(arms), each.arm.label)
            plain = {True: (Precision(0.00218, 0.0034, 0.6), replace(SCORE, top1=1.0))}
            stamp = Stamp("0123456789ab", False)
            return AccuracyReport(request, rest["backend"], rest["device"], arms, plain, stamp, "g++ 12.2.0")

        monkeypatch.setattr(workflow, "run_accuracy", report)
        monkeypatch.setattr("sparkctl.workflows.test.find_devices", lambda: ())
        monkeypatch.setenv("COLUMNS", str(columns))
        code = main(["accuracy", *words])
        captured = capsys.readouterr()
        return Screen(code, "\n".join(line.rstrip() for line in captured.out.splitlines()), captured.err)

    return call


def test_in_80_columns_each_name_stands_above_its_numbers(run: Run) -> None:
    screen = run("fa_split_gqa", "--ab", "FAPIPE=0,1", "--head-dim", "64")
    assert screen.out == (
        """\
bf16, head_dim 64, 8/2 heads, on the emulator

   rel. L2   largest  of allowed  positions     top-1   KL mean    KL max
fa_split_gqa, FAPIPE=0
  1.64e-03  3.10e-03        0.41         96     0.990   1.9e-04   1.2e-03
fa_split_gqa, FAPIPE=1
  1.64e-03  3.10e-03        0.41         96     0.990   1.9e-04   1.2e-03
plain bf16 in torch
  2.18e-03  3.40e-03        0.60         96     1.000   1.9e-04   1.2e-03

fa_split_gqa, FAPIPE=1: bits equal, of 6144 outputs
bars: of allowed ≤ 1, top-1 ≥ 0.90, KL mean ≤ 0.20 nats; all against fp64
4 layers, 2 × (192 + 48) positions, seed 0; g++ 12.2.0, profile release; commit
0123456789ab
2 arms: all passed"""
    )
    assert screen.err == "[1/2] fa_split_gqa, FAPIPE=0\n[2/2] fa_split_gqa, FAPIPE=1\n"
    assert screen.code == 0


def test_in_120_columns_names_and_numbers_share_a_line(run: Run) -> None:
    lines = run("fa_split_gqa", columns=120).out.splitlines()
    assert lines[2:4] == [
        "                         rel. L2   largest  of allowed  positions     top-1   KL mean    KL max",
        "fa_split_gqa, FAPIPE=0  1.64e-03  3.10e-03        0.41         96     0.990   1.9e-04   1.2e-03",
    ]


BROKEN = (
    arm("a", Precision(0.3, 2.5, 318.2)),
    arm("b", score=LogitScore(96, 0.75, 0.3, 2.0), bits=Bits(31, 6144, 0.5)),
    arm("c", Precision(math.inf, math.inf, math.inf), score=LogitScore(96, 0.0, math.inf, math.inf)),
    arm("d", score=NOTHING_SCORED),
)


def test_what_fails_is_said_in_words_and_the_exit_code_is_1(run: Run) -> None:
    screen = run(arms=BROKEN, columns=120)
    assert screen.code == 1
    lines = screen.out.splitlines()
    assert [line.endswith("  FAIL") for line in lines[3:8]] == [True, True, True, True, False]
    assert lines[9:17] == [
        "b: 31 of 6144 differ, by up to 0.5, of 6144 outputs",
        "a fails: an output is off by 318.20 times what is allowed",
        "b fails: top-1 agreement 0.750 is below 0.90",
        "b fails: the mean KL divergence 0.3 is above 0.20",
        "c fails: an output is off by inf times what is allowed",
        "c fails: top-1 agreement 0.000 is below 0.90",
        "c fails: the mean KL divergence inf is above 0.20",
        "d fails: no position was scored",
    ]
    assert lines[-1] == "4 arms: 4 of 4 failed"


def test_json_has_no_number_that_is_not_one(run: Run) -> None:
    screen = run("--json", arms=BROKEN)
    data = json.loads(screen.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert (screen.code, data["schema_version"], data["passed"]) == (1, 1, False)
    assert [a["passed"] for a in data["arms"]] == [False] * 4
    assert data["arms"][2]["precision"] == {"relative_l2": None, "largest": None, "of_allowed": None}
    assert data["arms"][1]["bits"] == {"differing": 31, "total": 6144, "largest": 0.5, "equal": False}
    assert data["arms"][3]["logits"]["positions"] == 0
    assert data["plain"]["decode"]["logits"]["top1"] == 1.0


def test_markdown_is_a_table(run: Run) -> None:
    lines = run("--markdown", arms=BROKEN[:2]).out.splitlines()
    assert lines[2:4] == [
        "| a | 3.00e-01 | 2.50e+00 | 318.20 | 96 | 0.990 | 1.9e-04 | 1.2e-03 | **FAIL** |",
        "| b | 1.64e-03 | 3.10e-03 | 0.41 | 96 | 0.750 | 3.0e-01 | 2.0e+00 | **FAIL** |",
    ]
    assert "b fails: top-1 agreement 0.750 is below 0.90" in lines


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--head-dim", "64,128"], 2, "error: --head-dim 64,128: one number is taken here\nhint: --head-dim 128\n"),
        (["--head-dim", "x"], 2, "error: --head-dim x: one number is taken here\nhint: --head-dim 128\n"),
        (["--dtype", "fp32"], 2, "error: --dtype fp32: one of bf16 and fp16 is taken\nhint: --dtype bf16\n"),
        (
            ["--where", "head_dim=64"],
            2,
            "error: --where head_dim: the sizes of a run are options\nhint: --head-dim 64\n",
        ),
        (["--json", "--markdown"], 2, "error: --json and --markdown exclude each other\nhint: choose one\n"),
        (["--ab", "stages"], 2, "error: --ab stages: no values\n"),
        (["--steps", "-1"], 2, "error: "),
        (["--layers", "0"], 2, "error: "),
        (["--backend", "cuda"], 3, "error: no CUDA device\n"),
    ],
)
def test_wrong_usage_says_what_and_what_next(run: Run, words: list[str], code: int, message: str) -> None:
    screen = run(*words)
    assert screen.code == code
    assert screen.err.startswith(message)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["attn_combine"],
            "error: accuracy has nothing to ask of attn_combine\nhint: it judges attn_decode_split_kv, ",
        ),
        (["--head-dim", "80"], "error: axis head_dim: unknown value '80'\n"),
        (["attn_prefill_split_q", "--ab", "num_splits=1,2"], "error: --ab num_splits: it compares decode kernels\n"),
        (
            ["attn_decode_split_kv", "--ab", "stages=1,2"],
            "error: --ab stages: it does not reach attn_decode_split_kv\n",
        ),
        (["no_kernel"], "error: unknown kernel 'no_kernel'"),
    ],
)
def test_what_cannot_be_judged_is_refused_before_anything_is_built(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflow, "ensure_built", lambda *a, **k: pytest.fail("it was built"))
    assert main(["accuracy", *words, "--backend", "emulator"]) == 2
    assert capsys.readouterr().err.startswith(message)


@pytest.fixture
def own_build(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No waiting for what other tests build in the project's own folder."""
    monkeypatch.setenv("SPARKCTL_BUILD_DIR", str(tmp_path_factory.getbasetemp() / "accuracy"))


SMALL = ["--head-dim", "32", "--layers", "2", "--prompt", "20", "--steps", "8"]


@pytest.mark.usefixtures("own_build")
def test_a_real_run_compares_both_arms_of_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["fa_split_gqa", "--ab", "FAPIPE=0,1", "--where", "paged=0", *SMALL, "--json", "--backend", "emulator"]
    assert main(["accuracy", *words]) == 0
    data = json.loads(capsys.readouterr().out)
    first, second = data["arms"]
    assert (first["flags"], second["flags"]) == ({"FAPIPE": "0"}, {"FAPIPE": "1"})
    assert second["bits"]["equal"]
    assert second["bits"]["total"] > 1000
    assert first["logits"]["positions"] == 16
    assert 0 < first["precision"]["relative_l2"] < 0.005


@pytest.mark.usefixtures("own_build")
def test_a_kernel_that_answers_wrongly_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = workflow.attend
    monkeypatch.setattr(workflow, "attend", lambda arm, bench, q, k, v, lens=None: right(arm, bench, q * 2, k, v, lens))
    words = ["attn_decode_split_kv.bf16.d32", *SMALL[2:], "--backend", "emulator"]  # the sizes are the variant's
    assert main(["accuracy", *words]) == 1
    out = capsys.readouterr().out
    assert "attn_decode_split_kv.bf16.d32 fails: an output is off by " in out
    assert "attn_decode_split_kv.bf16.d32 fails: top-1 agreement " in out
