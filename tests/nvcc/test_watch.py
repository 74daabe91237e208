"""`sparkctl watch` on a real small tree: saves are followed by compiles, in a pipe and on a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO

import pytest
from conftest import ALPHA, TinyProject  # type: ignore[import-not-found]

pytestmark = pytest.mark.nvcc
WAIT_S = 60  # for a compile on a busy machine
# Many values alive at once: more registers than the plain kernel.
HUNGRY = ALPHA + (
    "__global__ void KERNEL(alpha, SPARK_SIZE)(float* data) {\n  float x[24];\n"
    "  for (int i = 0; i < 24; ++i) x[i] = data[i * 7];\n  __syncthreads();\n"
    "  for (int i = 0; i < 24; ++i) data[i] = x[23 - i] * SCALE * TINY_LEVEL;\n}\n"
)
HUNGRY = HUNGRY.replace(ALPHA.splitlines(keepends=True)[-1], "")


@dataclass
class Watched:
    """A running `sparkctl watch --json`, read round by round."""

    process: subprocess.Popen[str]
    rest: str = field(default="")

    def round(self) -> dict[str, object]:
        stream: IO[str] | None = self.process.stdout
        assert stream is not None
        until = time.monotonic() + WAIT_S
        while "\n" not in self.rest:
            assert time.monotonic() < until, "no round came"
            if select.select([stream], [], [], 1)[0]:
                block = os.read(stream.fileno(), 1 << 16).decode()
                assert block, f"it ended: {self.process.stderr.read() if self.process.stderr else ''}"
                self.rest += block
        line, _, self.rest = self.rest.partition("\n")
        data: dict[str, object] = json.loads(line)
        return data

    def is_quiet(self, seconds: float) -> bool:
        return not self.rest and not select.select([self.process.stdout], [], [], seconds)[0]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(20)


@pytest.fixture
def watched(built: TinyProject) -> Iterator[Watched]:
    process = built.start("watch", "alpha.n1", "--arch", "sm_90", "--json")
    try:
        yield Watched(process)
    finally:
        process.kill()
        process.wait()


def registers(found: dict[str, object]) -> list[tuple[int, int]]:
    return [(c["old"]["registers"], c["new"]["registers"]) for c in found["changes"]]  # type: ignore[index,attr-defined]


def test_each_save_is_a_round_with_the_numbers_before_and_after(built: TinyProject, watched: Watched) -> None:
    first = watched.round()
    assert (first["ok"], first["why"], first["objects_made"]) == (True, [], 0)
    ((plain, same),) = registers(first)
    assert plain == same
    built.write("csrc/alpha.cu", HUNGRY)
    second = watched.round()
    assert (second["ok"], second["why"]) == (True, ["csrc/alpha.cu changed"])
    ((before, hungry),) = registers(second)
    assert before == plain < hungry
    assert second["tests_note"] == "alpha has no test cases"

    built.write("csrc/common/scale.h", "#define SCALE nothing\n")  # a header that the compiler's own record names
    broken = watched.round()
    assert (broken["ok"], broken["why"]) == (False, ["csrc/common/scale.h changed"])
    problem = broken["problem"]
    assert problem["stage"] == "build"  # type: ignore[index]
    assert {"file": "csrc/alpha.cu", "line": 7, "text": 'identifier "nothing" is undefined'} in problem["errors"]  # type: ignore[index]
    assert registers(broken) == [(hungry, hungry)]
    assert broken["numbers_of_round"] == 2

    built.write("csrc/common/scale.h", "#define SCALE 3.0f\n")
    built.write("csrc/alpha.cu", ALPHA)
    mended = watched.round()
    assert (mended["ok"], registers(mended)) == (True, [(hungry, plain)])
    assert mended["why"] == ["csrc/alpha.cu changed", "csrc/common/scale.h changed"]

    (built.root / "csrc/beta.cu").write_text("broken", encoding="utf-8")  # another kernel's
    assert watched.is_quiet(1.5)
    assert watched.stop() == 130


def test_a_broken_registry_is_said_and_its_mending_noticed(built: TinyProject, watched: Watched) -> None:
    watched.round()
    text = (built.root / "flags.yaml").read_text(encoding="utf-8")
    built.write("flags.yaml", text.replace("block: 32", "blocc: 32", 1))
    broken = watched.round()
    assert (broken["ok"], broken["problem"]["stage"]) == (False, "registry")  # type: ignore[index]
    assert re.search(r"flags\.yaml:\d+: .*blocc", broken["problem"]["message"])  # type: ignore[index]
    built.write("flags.yaml", text)
    assert watched.round()["ok"] is True


def test_a_header_that_is_missing_is_waited_for(built: TinyProject, watched: Watched) -> None:
    watched.round()
    built.write("csrc/alpha.cu", '#include "extra/new.h"\n' + ALPHA)
    problem = watched.round()["problem"]
    assert "extra/new.h: No such file or directory" in problem["errors"][0]["text"]  # type: ignore[index]
    built.write("csrc/extra/new.h", "#define NEW 1\n")
    found = watched.round()
    assert (found["ok"], found["why"]) == (True, ["csrc/extra/new.h added"])


def test_once_in_a_pipe_is_one_plain_block(built: TinyProject) -> None:
    done = built.sparkctl("watch", "alpha", "--arch", "sm_90", "--once")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[:2] == [
        "alpha, sm_90, release: build 1",
        "alpha  regs  spills B  smem B  blocks/SM  occupancy %",
    ]
    assert [line.split()[0] for line in lines[2:4]] == ["n1", "n2"]
    assert lines[4] == "not tested: alpha has no test cases"
    assert "\x1b" not in done.stdout
    built.write("csrc/alpha.cu", "this is no kernel\n")
    done = built.sparkctl("watch", "alpha", "--arch", "sm_90", "--once")
    assert done.returncode == 1
    assert "does not compile:\n  csrc/alpha.cu:1: " in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["watch", "gamma"], 2, "unknown kernel"),
        (["watch", "alpha", "--arch", "sm_75"], 2, "sm_80"),
        (["watch", "alpha", "--set", "nothing=1"], 2, "nothing"),
    ],
)
def test_a_wrong_call_is_refused_before_anything_is_watched(
    tiny: TinyProject, words: list[str], code: int, said: str
) -> None:
    done = tiny.sparkctl(*words)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr


def on_terminal(project: TinyProject, end: signal.Signals, **environ: str) -> tuple[int, str]:
    """Exit code and everything that a terminal got: started, left alone until the first round is shown, ended."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "sparkctl.cli.app", "watch", "alpha.n1", "--arch", "sm_90"]
    env = {**project.environ, "TERM": "xterm-256color", **environ}
    process = subprocess.Popen(command, cwd=project.root, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said, sent, until = "", False, time.monotonic() + WAIT_S
    try:
        while time.monotonic() < until:
            if select.select([ours], [], [], 0.5)[0]:
                try:
                    block = os.read(ours, 1 << 16)
                except OSError:  # the other end is closed
                    break
                said += block.decode("utf-8", "replace")
            if "watched" in said and not sent:
                process.send_signal(end)
                sent = True
        return process.wait(20), said
    finally:
        process.kill()
        os.close(ours)


def test_a_terminal_is_left_as_it_was_with_the_last_round_on_it(built: TinyProject) -> None:
    code, said = on_terminal(built, signal.SIGINT, COLUMNS="80", LINES="24")
    assert code == 130
    assert said.index("\x1b[?1049h") < said.index("\x1b[?25l") < said.index("alpha")
    behind = said[said.rindex("\x1b[?1049l") :]
    assert "\x1b[?25h" in said[said.rindex("\x1b[?25l") :]
    assert "alpha.n1, sm_90, release: build 1" in re.sub(r"\x1b\[[\d;]*m", "", behind)
    assert "error:" in behind and "interrupted" in behind


def test_a_signal_that_ends_it_gives_the_terminal_back_too(built: TinyProject) -> None:
    code, said = on_terminal(built, signal.SIGTERM, NO_COLOR="1", COLUMNS="80", LINES="24")
    assert code == -signal.SIGTERM
    assert "\x1b[?1049l" in said and "\x1b[?25h" in said[said.rindex("\x1b[?25l") :]
    assert not re.search(r"\x1b\[[\d;]*3\dm", said)
