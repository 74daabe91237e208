"""`sparkctl test FILE.cu`: what it says of programs that fail in odd ways, and of wrong calls."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from sparkctl.cli.app import main

ROOT = Path(__file__).resolve().parents[2]
ODD = """\
#include <cstdlib>

#include "program/program.h"

using namespace spark;

__global__ void fill(int* out) {
  out[threadIdx.x] = 1;
}

int main() {
  const std::string how = std::getenv("HOW") == nullptr ? "" : std::getenv("HOW");
  const program::Buffer<int> out("out", 32);
  program::run(SPARK_LAUNCH(fill, LaunchConfig{dim3(1), dim3(how == "fault" ? 33 : 32)}, out.data()));
  if (how == "crash") *static_cast<volatile int*>(nullptr) = 1;
  if (how == "lines") {
    for (int i = 0; i < 1000000; ++i) std::printf("line %d, [bold]\\n", i);
  }
  if (how == "forever") {
    for (volatile int i = 0;; i = i + 1) {
    }
  }
  return program::finish();
}
"""


@dataclass(frozen=True)
class Done:
    stdout: str
    stderr: str


Call = Callable[..., Done]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """The command in this process, in a folder with the files that wrong calls name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    Path("good.cu").write_text(ODD)
    Path("folder.cu").mkdir()
    Path("empty.cu").write_text("\n")
    Path("binary.cu").write_bytes(bytes(range(256)))

    def run(*words: str | Path, code: int) -> Done:
        capsys.readouterr()
        got = main(["--project", str(ROOT), "-q", "test", *map(str, words)])
        captured = capsys.readouterr()
        assert got == code, captured.err
        return Done(captured.out, captured.err)

    return run


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One program for the whole module, watched for memory faults, so that it is compiled once."""
    path = tmp_path_factory.mktemp("odd") / "odd.cu"
    path.write_text(ODD)
    return path


WATCHED = ("--sanitize", "memory")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nope.cu",), "error: nope.cu: no such file\nhint: name a .cu file\n"),
        (("folder.cu",), "error: folder.cu: not a file\nhint: name a .cu file\n"),
        (
            ("empty.cu",),
            "error: empty.cu: empty\nhint: a program with a kernel and a main(), as in docs/sanitize.md\n",
        ),
        (("binary.cu",), "error: binary.cu: not text\nhint: name a .cu file\n"),
        (("./",), "error: .: not a file\nhint: name a .cu file\n"),
        (("a/b",), "error: a/b: no such file\nhint: name a .cu file\n"),
        (("good.cu", "nope.cu"), "error: good.cu: a program is tested by itself\nhint: sparkctl test good.cu\n"),
        (("attn_*", "good.cu"), "error: good.cu: a program is tested by itself\nhint: sparkctl test good.cu\n"),
        (
            ("good.cu", "--head-dim", "64"),
            "error: --head-dim is for the project's kernels, not for good.cu\nhint: leave out --head-dim\n",
        ),
        (
            ("good.cu", "--sanitize", "race", "--backend", "cuda"),
            "error: --backend cuda is for the project's kernels, not for good.cu\nhint: leave out --backend cuda\n",
        ),
        (
            ("attn_combine", "--sanitize", "race", "--backend", "cuda"),
            "error: --schedule, --async-mode and --sanitize are the emulator's\nhint: leave out --backend cuda\n",
        ),
        (
            ("good.cu", "--sanitize", "x"),
            "error: invalid value for '--sanitize': 'x' is not one of 'race', 'memory', 'undefined'\n"
            "hint: sparkctl test --help\n",
        ),
    ],
)
def test_a_wrong_call_says_what_and_what_next(call: Call, words: tuple[str, ...], message: str) -> None:
    assert call(*words, code=2) == Done("", message)


def test_what_does_not_compile_shows_the_compilers_words_and_exits_1(call: Call, tmp_path: Path) -> None:
    bad = tmp_path / "bad.cu"
    bad.write_text("int main() { return missing; }\n")
    done = call(bad, code=1)
    assert done.stdout == ""
    assert done.stderr.startswith("error: program/bad failed (emulator-sm_90-release-bad-")
    assert "bad.cu:1:21: error: ‘missing’ was not declared" in done.stderr.replace("'missing'", "‘missing’")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("__global__ void f() {}\n", 'hint: #include "program/program.h" in kernel.cu, and write a main(): '),
        ('#include "program/program.h"\n', "hint: kernel.cu has no main(): write one that launches the kernel"),
    ],
)
def test_a_kernel_that_is_no_program_yet_is_told_what_is_missing(
    call: Call, tmp_path: Path, text: str, hint: str
) -> None:
    kernel = tmp_path / "kernel.cu"
    kernel.write_text(text)
    assert f"\n{hint}" in call(kernel, code=1).stderr


@pytest.mark.parametrize("columns", ["80", "120"])
def test_a_fault_is_shown_with_its_line(call: Call, odd: Path, columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOW", "fault")
    monkeypatch.setenv("COLUMNS", columns)
    lines = call(odd, *WATCHED, code=1).stdout.splitlines()
    assert max(map(len, lines)) <= int(columns)
    assert " ".join(lines[:-1]) == (
        "FAIL: fill: block (0,0,0): thread 32 at odd.cu:8: writes 4 bytes outside of the kernel's memory: up to 4 "
        "bytes past the end of 'out', which has 128"
    )
    assert lines[-1] == "odd.cu, the emulator, sm_90, release, memory check: failed: exit code 1"


def test_json_holds_the_fault_alone_and_whole(call: Call, odd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOW", "fault")
    data = json.loads(call(odd, *WATCHED, "--json", code=1).stdout)
    assert (data["passed"], data["exit_code"], data["sanitize"]) == (False, 1, "memory")
    (fault,) = data["faults"]
    assert fault.startswith("fill: block (0,0,0): thread 32 at odd.cu:8: writes 4 bytes outside")
    assert data["output"] == [f"FAIL: {fault}"]


def test_a_crash_names_its_signal(call: Call, odd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOW", "crash")
    done = call(odd, *WATCHED, code=1)
    assert done.stdout == "odd.cu, the emulator, sm_90, release, memory check: failed: killed by signal 11 (SIGSEGV)\n"


def test_a_million_lines_are_cut_and_counted(call: Call, odd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOW", "lines")
    lines = call(odd, *WATCHED, code=0).stdout.splitlines()
    assert lines[0] == "line 0, [bold]"
    assert lines[-2:] == ["and 999,801 more lines", "odd.cu, the emulator, sm_90, release, memory check: passed"]
    assert len(lines) == 202


def test_ctrl_c_ends_a_program_that_never_ends(call: Call, odd: Path) -> None:
    call(odd, *WATCHED, code=0)  # built, so that what follows is the run
    command = [sys.executable, "-m", "sparkctl", "--project", str(ROOT), "test", str(odd), *WATCHED]
    environ = {**os.environ, "HOW": "forever", "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        command,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        children = wait_for_child(process.pid)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, out) == (130, "")
    assert err.endswith("error: interrupted\n")
    assert [pid for pid in children if Path(f"/proc/{pid}").exists()] == []


def wait_for_child(parent: int) -> list[str]:
    """The processes of the program itself, once it runs."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        tasks = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        running = [pid for pid in tasks if "/odd" in Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[0]]
        if running:
            return running
        time.sleep(0.05)
    raise AssertionError("the program was not started")
