"""The door to other programs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sparkctl.errors import MissingTool, WorkFailed
from sparkctl.toolchain import run_tool


def test_a_failure_shows_command_code_and_output() -> None:
    with pytest.raises(WorkFailed) as caught:
        run_tool(["sh", "-c", "echo out; echo err >&2; exit 4"])
    assert caught.value.message == "sh -c 'echo out; echo err >&2; exit 4'\n  exit code 4\nout\nerr"


def test_a_signal_is_named() -> None:
    with pytest.raises(WorkFailed, match="killed by signal 9"):
        run_tool(["sh", "-c", "kill -9 $$"])


def test_a_failure_can_be_looked_at_instead() -> None:
    assert run_tool(["false"], check=False).returncode == 1


def test_a_missing_program_is_a_missing_tool() -> None:
    with pytest.raises(MissingTool, match="cannot run /nowhere/x: No such file"):
        run_tool(["/nowhere/x"])


def test_a_program_that_takes_too_long_is_stopped() -> None:
    with pytest.raises(WorkFailed, match=r"ran longer than 0\.1 s"):
        run_tool(["sleep", "20"], timeout=0.1)


def test_no_shell_reads_the_words(tmp_path: Path) -> None:
    assert run_tool(["echo", "; touch x", "$(touch x)"], cwd=tmp_path).stdout == "; touch x $(touch x)\n"
    assert not list(tmp_path.iterdir())


def test_output_that_is_no_text_does_not_raise() -> None:
    assert "�" in run_tool(["printf", r"\377"]).stdout


def test_a_started_program_ends_with_a_killed_parent(tmp_path: Path) -> None:
    script = (
        "import os, time; from pathlib import Path; from sparkctl.toolchain import start_tool;"
        "child = start_tool(['sleep', '300'], cwd=Path('/'), env=dict(os.environ));"
        "print(child.pid, flush=True); time.sleep(300)"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    for _ in range(100):
        try:
            if Path(f"/proc/{child}/stat").read_text().split()[2] == "Z":
                return
            time.sleep(0.02)
        except OSError:
            return
    os.kill(child, signal.SIGKILL)
    raise AssertionError("the child outlived its parent by two seconds")
