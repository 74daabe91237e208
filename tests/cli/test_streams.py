"""Streams that are closed, and encodings that lack the characters of the screens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMANDS = ["list", "list --json", "flags explain attn_combine", "bench --estimate H200", "--help", "list -v"]
ENCODINGS = [
    {"PYTHONIOENCODING": "ascii"},
    {"PYTHONIOENCODING": "latin-1"},
    {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
]


def shell(line: str, cwd: Path = ROOT, **environ: str) -> subprocess.CompletedProcess[bytes]:
    """`sparkctl` stands for the program; redirections as in a shell."""
    program = f'"{sys.executable}" -m sparkctl'
    return subprocess.run(
        ["sh", "-c", line.replace("sparkctl", program, 1)],
        cwd=cwd,
        env=os.environ | environ,
        capture_output=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_harmless(command: str, closed: str) -> None:
    done = shell(f"sparkctl {command} {closed}")
    assert done.returncode == 0
    assert done.stderr == b""
    assert bool(done.stdout) == (">&-" not in closed.replace("2>&-", ""))


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_an_error_keeps_its_exit_code_without_streams(closed: str) -> None:
    done = shell(f"sparkctl biuld {closed}")
    assert done.returncode == 2
    assert bool(done.stderr) == ("2>&-" not in closed)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("environ", ENCODINGS, ids=lambda environ: next(iter(environ.values())))
def test_no_encoding_makes_printing_fail(command: str, environ: dict[str, str]) -> None:
    done = shell(f"sparkctl {command}", **environ)
    assert done.returncode == 0
    assert done.stderr == b""
    assert b"?" not in done.stdout


def test_a_near_character_stands_for_one_that_the_encoding_lacks() -> None:
    done = shell("sparkctl bench --estimate H200 --seq 4k --batch 1", PYTHONIOENCODING="ascii")
    assert b"1 x 4k, 32/8, d128, bf16" in done.stdout
    assert b" us " in done.stdout


def test_an_unknown_character_is_a_question_mark_and_a_file_name_keeps_its_bytes(tmp_path: Path) -> None:
    assert "no command '?'" in shell("sparkctl 漢", PYTHONIOENCODING="ascii").stderr.decode()
    folder = os.fsencode(tmp_path) + b"/\xff"
    done = subprocess.run(
        [sys.executable, "-m", "sparkctl", "--project", folder, "list"], capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert b"/\xff: no such folder" in done.stderr


def test_json_loses_no_character_to_an_encoding() -> None:
    code = "from sparkctl.render.console import *; prepare_streams(); print_json({'name': 'ü × \\udcff'})"
    for environ in ({"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "utf-8"}):
        done = subprocess.run(
            [sys.executable, "-c", code], env=os.environ | environ, capture_output=True, timeout=60, check=True
        )
        assert json.loads(done.stdout) == {"schema_version": 1, "name": "ü × \udcff"}
