"""`sparkctl build --runner`, `sparkctl test --export` and `sparkctl test --runner`: screens, files and errors."""

# ruff: noqa: E501 - screens are as wide as they are

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from sparkctl.cli.app import main
from sparkctl.testing.case_file import decode_case

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Done:
    stdout: str
    stderr: str


Call = Callable[..., Done]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """The command in this process, from the project's folder."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: str | Path, code: int = 0) -> Done:
        capsys.readouterr()
        got = main([str(word) for word in words])
        captured = capsys.readouterr()
        assert got == code, captured.err
        return Done(captured.out, captured.err)

    return run


COMBINE = ("test", "attn_combine.bf16.d64", "--backend", "emulator")


def test_the_export_says_what_it_wrote_and_how_to_run_it(call: Call, tmp_path: Path) -> None:
    folder = tmp_path / "my cases"
    done = call(*COMBINE, "-k", "model_shape", "--schedule", "random", "--seed", "3", "--export", folder)
    assert done.stdout == (
        f"4 cases of 1 variant in {folder}, 0.8 MiB\n"
        "\n"
        "to run them:\n"
        "  sparkctl build attn_combine.bf16.d64 --runner --backend emulator --arch sm_90\n"
        f"  build/emulator-sm_90-release/sparkctl-runner --schedule random --async-mode late --seed 3 '{folder}'\n"
    )
    files = sorted(path.relative_to(folder) for path in folder.rglob("*"))
    assert [str(path) for path in files] == [
        "attn_combine.bf16.d64",
        *(f"attn_combine.bf16.d64/model_shape-b1-q1-h32-s{n}-live.case" for n in (1, 16, 4, 64)),
    ]


def test_the_commands_that_the_export_prints_run_its_cases(call: Call, tmp_path: Path) -> None:
    report = json.loads(call(*COMBINE, "-k", "model_shape", "--export", tmp_path / "cases", "--json").stdout)
    assert len(report["files"]) == 4
    program, *words = shlex.split(report["build"])
    assert program == "sparkctl"
    call(*words)
    done = subprocess.run(shlex.split(report["run"]), cwd=ROOT, env={}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "4 cases, 0 failed")


def test_what_lies_in_the_folder_stays_and_is_counted(call: Call, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "old.case").write_text("old")
    done = call(*COMBINE, "-k", "model_shape", "--export", tmp_path)
    assert "\n1 other case file there before: the runner takes them too\n" in done.stdout
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert [path.name for path in tmp_path.rglob(".*")] == []


def test_the_same_seed_gives_the_same_files(call: Call, tmp_path: Path) -> None:
    for folder, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        call(*COMBINE, "-k", "model_shape-b1-q1-h32-s4-live", "--seed", seed, "--export", tmp_path / folder)
    a, b, c = (next((tmp_path / folder).rglob("*.case")).read_bytes() for folder in "abc")
    assert a == b != c
    assert decode_case(a).inputs == decode_case(c).inputs


def test_cases_of_huge_strides_are_left_out_and_said(call: Call, tmp_path: Path) -> None:
    words = ("test", "attn_decode_split_kv.bf16.d32", "-k", "huge_len or odd_group", "--export", tmp_path)
    done = call(*words)
    names = [path.name for path in tmp_path.rglob("*.case")]
    assert names and all(name.startswith("odd_group") for name in names)
    assert done.stdout.startswith(f"{len(names)} cases of 1 variant in {tmp_path}, ")
    assert (
        "\nleft out: offsets_past_2_31-b1-kv3-h1-g4-q1-s1-huge_len-lse: its tensors span more than 2^31 elements\n"
        in done.stdout
    )


def test_cases_for_a_gpu_are_exported_without_one(call: Call, tmp_path: Path) -> None:
    words = ("attn_combine.bf16.d64", "-k", "s3-live", "--backend", "cuda", "--arch", "sm_80", "--export", tmp_path)
    done = call("test", *words)
    assert "  sparkctl build attn_combine.bf16.d64 --runner --backend cuda --arch sm_80\n" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--export", ""), "error: --export names no folder\nhint: write it as --export cases/\n"),
        (("--export", __file__), f"error: --export {__file__}: not a folder\nhint: name a folder, or one to be made\n"),
        (("--export", "x", "--runner"), "error: --export runs nothing\nhint: leave out --runner, --sanitize and --junit\n"),
        (("--export", "x", "-k", "nope"), "error: no case is selected by -k 'nope'\nhint: the ids to choose from: sparkctl list attn_combine.bf16.d64 --cases\n"),
    ],
)  # fmt: skip
def test_a_wrong_call_says_what_and_what_next(call: Call, words: tuple[str, ...], message: str) -> None:
    assert call(*COMBINE, *words, code=2).stderr == message


def test_a_folder_that_cannot_be_made_is_one_error(call: Call, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = call(*COMBINE, "-k", "model_shape", "--export", tmp_path / "file" / "x", code=1)
    assert "file/x/attn_combine.bf16.d64 cannot be written: Not a directory" in done.stderr.replace("\n", " ")


def test_the_runner_reports_through_the_same_table(call: Call, tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    words = (*COMBINE, "stream_read.u2", "-k", "model_shape or blocks3", "--runner", "--repeat", "2")
    done = call(*words, "--junit", report)
    assert done.stdout.splitlines()[:4] == [
        "the emulator, the standalone runner, sm_90, release, quick cases, seed 0",
        "kernel        variants  cases  failed  skipped  worst error",
        "attn_combine         1      4       0        0         0.43",
        "stream_read          1     15       0        0         0.00",
    ]
    assert done.stdout.endswith("\n2 variants, 19 cases, each 2 times with the same bits: all passed\n")
    assert 'name="stream_read.u2"' in report.read_text(encoding="utf-8")
    data = json.loads(call(*words, "--json").stdout)
    assert [v["launches"] for v in data["variants"]] == [8, 30]
    assert "--runner" in data["command"]


def test_a_check_is_named_in_the_title_and_in_what_repeats_the_run(call: Call) -> None:
    words = ("test", "stream_read.u2", "-k", "bytes112", "--sanitize", "race")
    assert call(*words).stdout.splitlines()[0] == "the emulator, sm_90, release, race check, quick cases, seed 0"
    data = json.loads(call(*words, "--json").stdout)
    assert (data["sanitize"], data["command"]) == ("race", "sparkctl test stream_read.u2 -k bytes112 --sanitize race")


def test_a_dry_run_prints_the_runners_own_commands(tmp_path: Path) -> None:
    environ = {**os.environ, "SPARKCTL_BUILD_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "sparkctl", "build", "attn_decode_split_kv.bf16.d32", "--runner"]
    command += ["--backend", "emulator", "--dry-run"]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert " and 1 library and the runner to link, 0 up to date" in lines[0]
    sources = sorted(path.name for path in (ROOT / "csrc" / "runner").glob("*.cpp"))
    for source in sources:
        assert sum(f" -c csrc/runner/{source} " in line for line in lines) == 1
    (link,) = [line for line in lines if line.startswith("SPARKCTL_EDGE=link-runner ")]
    assert "/obj/attn_combine.bf16.d32.o" in link  # a decode is not run without it
    assert "/obj/runner/main.o" in link
    assert "/obj/binding/" not in link
    assert not list(tmp_path.iterdir())
