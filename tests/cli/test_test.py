"""`sparkctl test`: whole screens over made-up outcomes, and one real run on the emulator."""

# ruff: noqa: E501 - screens are as wide as they are

import contextlib
import json
import math
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparkctl.cli.app import main
from sparkctl.registry import find_project, load_registry, select_variants
from sparkctl.testing.cases import CASES
from sparkctl.testing.suite import Outcome
from sparkctl.toolchain import find_devices

WRONG = "out at batch 0, qo 0, head 3, dim 17: got 0.25, expected -1.109375; error 1.36, allowed 0.0163"
DECODE = ["attn_decode_split_kv_mma", "--head-dim", "128", "--dtype", "bf16"]


class StandInLibrary:
    """Takes the emulator's settings and keeps them."""

    manifest = SimpleNamespace(compiler="g++ 12", digest="0123")

    settings: dict[str, Any]

    def configure_emulator(self, **settings: Any) -> None:
        self.settings = settings


@dataclass
class Screen:
    code: int
    out: str
    err: str


Run = Callable[..., Screen]
QUICK_GROUPS = "1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16, 17, 32, 64"


@pytest.fixture
def outcomes() -> dict[str, Outcome]:
    """What a case gives instead of 0.25 of the allowed error: by case id, or by `variant case`."""
    return {}


@pytest.fixture
def ran() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def library() -> StandInLibrary:
    return StandInLibrary()


@pytest.fixture
def run(
    outcomes: dict[str, Outcome],
    ran: list[tuple[str, str]],
    library: StandInLibrary,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Runs the command on the real registry with made-up outcomes; nothing is built."""

    def run_case(target: Any, variant: Any, case: Any) -> Outcome:
        ran.append((variant.name, case.id))
        return outcomes.get(f"{variant.name} {case.id}", outcomes.get(case.id, Outcome(0.25, 2)))

    monkeypatch.setattr("sparkctl.workflows.test.ensure_built", lambda *a, **k: tmp_path / "emulator-sm_90-release")
    monkeypatch.setattr("sparkctl.workflows.test.load_library", lambda folder: library)
    monkeypatch.setattr("sparkctl.workflows.test.find_devices", lambda: ())
    monkeypatch.setattr("sparkctl.workflows.test.default_build_root", lambda registry, environ: tmp_path)
    monkeypatch.setattr("sparkctl.testing.suite.run_case", run_case)
    return caller(monkeypatch, capsys)


def caller(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*words: str, columns: int | None = None) -> Screen:
        monkeypatch.setenv("COLUMNS", str(columns)) if columns else monkeypatch.delenv("COLUMNS", raising=False)
        capsys.readouterr()
        code = main(["test", *words])
        captured = capsys.readouterr()
        return Screen(code, "\n".join(line.rstrip() for line in captured.out.splitlines()), captured.err)

    return call


def screen(text: str) -> str:
    return text.strip("\n")


# Few of the real variants and cases, by their whole names, so that one more elsewhere moves no screen.
MMA = tuple(f"attn_decode_split_kv_mma.bf16.d128{tile}" for tile in ("", ".s1", ".s4"))
NAMED = ("attn_decode_split_kv", *MMA, "attn_combine")
CHOSEN = "tile_counts-b1-kv64-h2-g4-q1-s3-lse or b1-q1-h1-s1-live"


def test_all_passed_names_the_worst_case_of_each_kernel(run: Run, outcomes: dict[str, Outcome]) -> None:
    outcomes["tile_counts-b1-kv64-h2-g4-q1-s3-lse"] = Outcome(0.61, 2)
    outcomes["b1-q1-h1-s1-live"] = Outcome(0.5, 1)
    result = run(*NAMED, "--head-dim", "128", "--dtype", "bf16", "-k", CHOSEN, columns=80)
    assert result.code == 0
    assert result.err == ""
    assert result.out == screen("""
the emulator, sm_90, release, quick cases, seed 0
kernel                    variants  cases  failed  skipped  worst error
attn_decode_split_kv             1      1       0        0         0.61
attn_decode_split_kv_mma         3      3       0        0         0.61
attn_combine                     1      1       0        0         0.50

closest to the limit of 1:
  0.61  attn_decode_split_kv.bf16.d128
        tile_counts-b1-kv64-h2-g4-q1-s3-lse
  0.61  attn_decode_split_kv_mma.bf16.d128.s1
        tile_counts-b1-kv64-h2-g4-q1-s3-lse
  0.50  attn_combine.bf16.d128
        b1-q1-h1-s1-live

5 variants, 5 cases: all passed
""")


@pytest.mark.parametrize("columns", [26, 40, 60])
def test_a_narrow_screen_has_a_sentence_for_each_kernel_and_no_broken_word(
    run: Run, outcomes: dict[str, Outcome], columns: int
) -> None:
    outcomes["attn_combine.bf16.d128 b1-q1-h1-s1-live"] = Outcome(1.5, 1, "wrong")
    words = (*NAMED, "--head-dim", "128", "--dtype", "bf16", "-k", CHOSEN)
    lines = run(*words, columns=columns).out.splitlines()
    start = lines.index("attn_decode_split_kv")
    shown = lines[start : lines.index("", start)]
    assert all(len(line) <= columns for line in shown)
    assert " ".join(shown) == (
        "attn_decode_split_kv 1 variant, 1 case, 0 failed, 0 skipped, worst error 0.25 "
        "attn_decode_split_kv_mma 3 variants, 3 cases, 0 failed, 0 skipped, worst error 0.25 "
        "attn_combine 1 variant, 1 case, 1 failed, 0 skipped, worst error 1.50"
    )


def test_a_failure_shows_place_values_and_the_command_that_reruns_it(run: Run, outcomes: dict[str, Outcome]) -> None:
    case = "large_logits-b1-kv150-h2-g4-q1-s3-large-lse"
    outcomes[f"attn_decode_split_kv_mma.bf16.d128.s4 {case}"] = Outcome(83.4, 2, WRONG)
    words = [*MMA, "-k", case, "--seed", "3", "--backend", "emulator"]
    result = run(*words, columns=80)
    assert result.code == 1
    assert result.out == screen("""
the emulator, sm_90, release, quick cases, seed 3
kernel                    variants  cases  failed  skipped  worst error
attn_decode_split_kv_mma         3      3       1        0        83.40

attn_decode_split_kv_mma: 1 case failed

  large_logits-b1-kv150-h2-g4-q1-s3-large-lse
    out at batch 0, qo 0, head 3, dim 17: got 0.25, expected -1.109375; error
    1.36, allowed 0.0163
    sparkctl test attn_decode_split_kv_mma.bf16.d128.s4 -k large_logits-b1-kv150-h2-g4-q1-s3-large-lse --backend emulator --seed 3

3 variants, 3 cases: 1 failed
""")
    wide = run(*words, columns=120).out
    assert f"    {WRONG}\n" in wide
    assert run(*words).out.splitlines()[5:7] == wide.splitlines()[5:7]


def test_the_rerun_command_runs_that_case_and_nothing_else(
    run: Run, outcomes: dict[str, Outcome], ran: list[tuple[str, str]]
) -> None:
    for case in ("no_keys-b1-kv0-h1-g4-q1-s1-lse", "b1-kv1-h1-g1-q1-s1"):
        outcomes[case] = Outcome(math.inf, 2, WRONG)
    data = json.loads(run(*DECODE, "--full", "--schedule", "random", "--seed", "5", "--json").out)
    failures = [(v["name"], f["case"], f["rerun"]) for v in data["variants"] for f in v["failures"]]
    assert failures
    for variant, case, rerun in failures:
        program, command, *words = shlex.split(rerun)
        assert (program, command) == ("sparkctl", "test")
        ran.clear()
        assert run(*words).code == 1
        assert ran == [(variant, case)]


def test_more_failures_than_fit_are_counted(run: Run, outcomes: dict[str, Outcome]) -> None:
    names = json.loads(run("attn_combine.bf16.d64", "--json").out)
    assert names["passed"] is True
    registry = load_registry(find_project(None) / "flags.yaml")
    from sparkctl.testing.cases import cases_for

    cases = cases_for(select_variants(registry, ["attn_combine.bf16.d64"])[0])
    for case in cases[:14]:
        outcomes[case.id] = Outcome(2.0, 1, "wrong")
    result = run("attn_combine.bf16.d64")
    assert result.code == 1
    assert result.out.count("    sparkctl test attn_combine.bf16.d64 -k ") == 10
    assert result.out.endswith(
        f"  and 4 more; --json and --junit FILE list them all\n\n1 variant, {len(cases)} cases: 14 failed"
    )


def test_with_v_every_variant_has_its_row(run: Run) -> None:
    result = run("stream_read", "-v", "-k", "bytes0-blocks1", columns=80)
    assert result.out == screen("""
the emulator, sm_90, release, quick cases, seed 0
kernel          variants  cases  failed  skipped  worst error
stream_read.u2         1      1       0        0         0.25
stream_read.u4         1      1       0        0         0.25
stream_read.u8         1      1       0        0         0.25

closest to the limit of 1:
  0.25  stream_read.u2
        bytes0-blocks1

3 variants, 3 cases: all passed
""")


def test_a_skipped_case_says_what_is_missing(run: Run, outcomes: dict[str, Outcome]) -> None:
    for layout in ("huge_batch", "huge_len", "huge_heads"):
        case = next(c for c in emulator_cases() if layout in c)
        outcomes[case] = Outcome(skip="cuda:0 has 1.0 GiB free, the case needs 10.5 GiB")
    result = run("attn_decode_split_kv_mma.bf16.d64", "-k", "huge_len or tile_counts-b1-kv64-h2-g4-q1-s3-lse")
    assert result.code == 0
    assert "attn_decode_split_kv_mma         1      1       0        1         0.25" in result.out
    assert (
        "skipped: attn_decode_split_kv_mma offsets_past_2_31-b1-kv3-h1-g4-q1-s1-huge_len-lse: "
        "cuda:0 has 1.0 GiB free, the case needs 10.5 GiB" in result.out
    )


def test_nothing_but_skipped_cases_is_no_success(run: Run, outcomes: dict[str, Outcome]) -> None:
    case = next(c for c in emulator_cases() if "huge_len" in c)
    outcomes[case] = Outcome(skip="too little memory")
    assert run("attn_decode_split_kv_mma.bf16.d64", "-k", "huge_len").code == 1


def test_a_variant_that_ran_nothing_is_told_and_not_all_passed(run: Run, outcomes: dict[str, Outcome]) -> None:
    for case in ("tile_counts-b1-kv64-h2-g4-q1-s3-lse", "tile_counts-b1-kv128-h2-g4-q1-s3-lse"):
        outcomes[f"attn_decode_split_kv.bf16.d128 {case}"] = Outcome(skip="too little memory")
    words = ["--head-dim", "128", "--dtype", "bf16", "-k", f"{CHOSEN} or tile_counts-b1-kv128-h2-g4-q1-s3-lse"]
    result = run("attn_decode_split_kv.*", *NAMED[1:], *words, columns=80)
    assert result.code == 0
    assert "attn_decode_split_kv             1      0       0        2         0.00" in result.out
    assert result.out.endswith("""
skipped: attn_decode_split_kv, 2 cases: too little memory
ran no case: attn_decode_split_kv.bf16.d128: too little memory

5 variants, 7 cases: 0 failed, 1 variant ran no case""")
    data = json.loads(run("attn_decode_split_kv.*", *NAMED[1:], *words, "--json").out)
    assert (data["passed"], data["ran_no_case"], data["missed"]) == (True, ["attn_decode_split_kv.bf16.d128"], [])


@pytest.mark.parametrize("name", ["attn_decode_split_kv", "attn_decode_split_kv.bf16.d128"])
def test_what_was_asked_for_by_name_and_ran_nothing_is_no_success(
    run: Run, outcomes: dict[str, Outcome], name: str
) -> None:
    outcomes["attn_decode_split_kv.bf16.d128 tile_counts-b1-kv64-h2-g4-q1-s3-lse"] = Outcome(skip="too little memory")
    words = [name, *NAMED[1:], "--head-dim", "128", "--dtype", "bf16", "-k", CHOSEN]
    result = run(*words, columns=200)
    assert result.code == 1
    assert result.out.endswith(f"\n5 variants, 4 cases: 0 failed, 1 variant ran no case, {name} asked for by name")
    assert json.loads(run(*words, "--json").out)["missed"] == [name]


def test_a_kernel_without_cases_that_was_asked_for_by_name_is_no_success(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(CASES, "attn_merge_states")
    words = ["--head-dim", "128", "--dtype", "bf16", "-k", CHOSEN]
    assert run("attn_[cm]*", *words).code == 0
    result = run("attn_combine", "attn_merge_states", *words)
    assert result.code == 1
    assert "no cases: attn_merge_states\n" in result.out
    assert result.out.endswith("\n1 variant, 1 case: 0 failed, attn_merge_states asked for by name")


def emulator_cases() -> list[str]:
    from sparkctl.testing.decode_cases import decode_cases

    return [case.id for case in decode_cases("quick")]


def test_a_lost_device_says_what_did_not_run(run: Run, outcomes: dict[str, Outcome]) -> None:
    outcomes["attn_combine.bf16.d128 few_splits-b2-q1-h5-s3-live"] = Outcome(
        math.inf, 0, "RuntimeError: an illegal memory access was encountered", device_lost=True
    )
    result = run("attn_combine", "--head-dim", "128", "-k", "few_splits")
    assert result.code == 1
    assert "not run, since the device was lost: attn_combine.fp16.d128" in result.out


def test_json_is_one_object_whose_counts_are_those_of_the_run(
    run: Run, outcomes: dict[str, Outcome], ran: list[tuple[str, str]]
) -> None:
    outcomes["bytes16-blocks3"] = Outcome(math.inf, 1, "checksum: got 0x00000001, expected 0x00000002")
    result = run("stream_read.u2", "--json")
    data = json.loads(result.out)
    assert data["command"].startswith("sparkctl test")
    assert set(data["stamp"]) == {"commit", "dirty"}
    assert (data["compiler"], data["library_digest"]) == ("g++ 12", "0123")
    assert result.code == 1
    assert data["schema_version"] == 1
    assert (data["passed"], data["backend"], data["arch"], data["grid"]) == (False, "emulator", "sm_90", "quick")
    assert data["cases"] == len(ran) == 32
    assert data["failed"] == 1
    assert data["variants"][0]["worst_error"] is None
    assert data["variants"][0]["failures"] == [
        {
            "case": "bytes16-blocks3",
            "message": "checksum: got 0x00000001, expected 0x00000002",
            "rerun": "sparkctl test stream_read.u2 -k bytes16-blocks3",
        }
    ]


def test_last_failed_runs_what_failed_until_it_passes(
    run: Run, outcomes: dict[str, Outcome], ran: list[tuple[str, str]]
) -> None:
    outcomes["stream_read.u4 bytes48-blocks1"] = Outcome(math.inf, 1, "wrong")
    assert run("stream_read").code == 1
    ran.clear()
    assert run("--last-failed").code == 1
    assert ran == [("stream_read.u4", "bytes48-blocks1")]
    outcomes.clear()
    assert run("--last-failed").code == 0
    result = run("--last-failed")
    assert result.code == 2
    assert result.err == (
        "error: no case failed in the last run on the emulator backend\nhint: leave out --last-failed\n"
    )


def test_group_narrows_the_decode_cases(run: Run, ran: list[tuple[str, str]]) -> None:
    assert run("attn_decode_split_kv.bf16.d128", "--group", "5,7").code == 0
    assert ran
    assert all("-g5-" in case or "-g7-" in case for _, case in ran)


def test_schedules_and_arrivals_reach_the_emulator(run: Run, library: StandInLibrary) -> None:
    run("stream_read", "--schedule", "random", "--async-mode", "early", "--seed", "9")
    assert library.settings == {"schedule": "random", "async_mode": "early", "seed": 9}


def test_full_runs_more_cases(run: Run, ran: list[tuple[str, str]]) -> None:
    run("attn_decode_split_kv.bf16.d128")
    quick = len(ran)
    ran.clear()
    run("attn_decode_split_kv.bf16.d128", "--full")
    assert len(ran) > 1.5 * quick


def test_a_junit_report_is_written(run: Run, tmp_path: Path) -> None:
    report = tmp_path / "new" / "$HOME" / "report.xml"
    assert run("stream_read", "--junit", str(report)).code == 0
    assert 'name="stream_read.u8"' in report.read_text(encoding="utf-8")


def test_the_largest_seed_reaches_the_emulator(run: Run, library: StandInLibrary) -> None:
    assert run("stream_read", "--seed", str(2**63 - 1)).code == 0
    assert library.settings["seed"] == 2**63 - 1


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["-k", "nothing_like_it"], 2, "error: no case is selected by -k 'nothing_like_it'\nhint: the ids to choose from: sparkctl list --cases\n"),
        (["attn_*", "--full", "-k", "nope"], 2, "error: no case is selected by -k 'nope'\nhint: the ids to choose from: sparkctl list 'attn_*' --cases\n"),
        (["stream_read.u2", "-k", "bytes1008-blocks5"], 2, "error: no case is selected by -k 'bytes1008-blocks5'\nhint: --full selects 1 case\n"),
        (["--group", "x"], 2, "error: --group x: not a number of heads\nhint: write it as --group 4 or --group 4,8\n"),
        (["--group", ""], 2, "error: --group is empty\nhint: write it as --group 4 or --group 4,8\n"),
        (["--group", ","], 2, "error: --group is empty\nhint: write it as --group 4 or --group 4,8\n"),
        (["--group", "²"], 2, "error: --group ²: not a number of heads\nhint: write it as --group 4 or --group 4,8\n"),
        (["--group", "9" * 5000], 2, f"error: --group {'9' * 5000}: not a number of heads\nhint: write it as --group 4 or --group 4,8\n"),
        (["--group", "4,65"], 2, f"error: no case is selected by --group 65\nhint: the decode cases have {QUICK_GROUPS}\n"),
        (["attn_decode_split_kv", "--group", "65"], 2, f"error: no case is selected by --group 65\nhint: the decode cases have {QUICK_GROUPS}\n"),
        (["attn_combine", "--group", "4"], 2, "error: --group 4: no decode kernel is selected\nhint: leave out --group\n"),
        (["--seed", "99999999999999999999999"], 2, "error: --seed 99999999999999999999999: out of range\nhint: 0 to 9223372036854775807\n"),
        (["--seed", "9223372036854775808"], 2, "error: --seed 9223372036854775808: out of range\nhint: 0 to 9223372036854775807\n"),
        (["--seed", "-1"], 2, "error: --seed -1: out of range\nhint: 0 to 9223372036854775807\n"),
        (["--junit", ""], 2, "error: --junit names no file\nhint: write it as --junit report.xml\n"),
        (["--junit", "/"], 2, "error: --junit /: a folder\nhint: name the file in it\n"),
        (["--junit", "/dev/null/x/report.xml"], 2, "error: --junit /dev/null/x/report.xml: no folder /dev/null/x: Not a directory\n"),
        (["--arch", ""], 2, "error: arch '' is not understood\nhint: write it as sm_90, sm_90a or 9.0\n"),
        (["--arch", "native"], 2, "error: arch 'native': one arch is expected here, by its name\nhint: write it as sm_90, sm_90a or 9.0\n"),
        (["--arch", "all"], 2, "error: arch 'all': one arch is expected here, by its name\nhint: write it as sm_90, sm_90a or 9.0\n"),
        (["--arch", "sm_80,sm_90"], 2, "error: arch 'sm_80,sm_90': one arch is expected here, by its name\nhint: write it as sm_90, sm_90a or 9.0\n"),
        (["-k", "(b1"], 2, "error: -k '(b1': a ')' is missing\nhint: write words with and, or, not and parentheses: 'causal and not large'\n"),
        (["attn_combin"], 2, "error: unknown kernel 'attn_combin'\nhint: did you mean 'attn_combine'?\n"),
        (["--backend", "cuda"], 3, "error: no CUDA device\nhint: sparkctl test --backend emulator runs the same cases on the CPU\n"),
        (["--backend", "cuda", "--schedule", "random"], 2, "error: --schedule, --async-mode and --sanitize are the emulator's\nhint: leave out --backend cuda\n"),
    ],
)  # fmt: skip
def test_errors_say_what_and_what_next(run: Run, words: list[str], code: int, message: str) -> None:
    result = run(*words)
    assert (result.code, result.out, result.err) == (code, "", message)


def test_a_real_run_on_the_emulator_passes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    result = caller(monkeypatch, capsys)("stream_read.u2", "--backend", "emulator", "-k", "blocks3", "--json")
    assert result.code == 0, result.err
    data = json.loads(result.out)
    assert (data["passed"], data["cases"], data["variants"][0]["launches"]) == (True, 15, 15)


def test_an_interrupt_that_the_library_hands_back_as_an_error_is_no_failed_case(
    run: Run, ran: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_case(target: Any, variant: Any, case: Any) -> Outcome:
        ran.append((variant.name, case.id))
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return Outcome(math.inf, failure="RuntimeError: interrupted")

    monkeypatch.setattr("sparkctl.testing.suite.run_case", run_case)
    result = run("stream_read")
    assert (result.code, result.out, result.err) == (130, "", "error: interrupted\n")
    assert len(ran) == 1
    assert not (tmp_path / "test" / "failures.json").exists()


INTERRUPTIBLE = """
import sys
from sparkctl.cli.app import main
print("ready", file=sys.stderr, flush=True)
sys.exit(main())
"""


def test_an_interrupt_at_any_moment_ends_a_real_run_at_once_and_without_results(tmp_path: Path) -> None:
    words = ["test", "attn_combine.bf16.d32", "stream_read.u2", "--backend", "emulator"]
    environ = {**os.environ, "SPARKCTL_BUILD_DIR": str(tmp_path)}
    assert (
        subprocess.run([sys.executable, "-m", "sparkctl", *words], env=environ, timeout=300, check=False).returncode
        == 0
    )
    ends = []
    for moment in range(4):
        process = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTIBLE, *words, "--repeat", "1000"],
            env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None and process.stderr is not None
        assert process.stderr.readline() == "ready\n"
        time.sleep(0.02 + 0.45 * moment)
        os.killpg(process.pid, signal.SIGINT)
        start = time.monotonic()
        out, err = process.communicate(timeout=60)
        ends.append((process.returncode, out, err))
        assert time.monotonic() - start < 10
    assert ends == [(130, "", "error: interrupted\n")] * len(ends)


@pytest.mark.gpu
def test_a_real_run_on_a_device_passes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    if not find_devices():
        pytest.skip("no CUDA device")
    words = ["attn_combine.bf16.d128", "stream_read.u2", "--backend", "cuda", "--json"]
    result = caller(monkeypatch, capsys)(*words)
    assert result.code == 0, result.err
    assert json.loads(result.out)["backend"] == "cuda"
