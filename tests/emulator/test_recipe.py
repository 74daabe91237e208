"""The recipe of docs/sanitize.md: its program is clean under every check, and its table's faults are found as told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sparkctl.cli.app import main

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "sanitize.md").read_text(encoding="utf-8")
(RECIPE,) = re.findall(r"```cuda\n(.*?)```", PAGE, re.DOTALL)
FAULTS = {  # check: the edit that the table of the page names
    "race": ("  __syncthreads();  // every part is written\n", "\n"),
    "memory": ("out[blockIdx.x * cols + i]", "out[blockIdx.x * cols + i + 1]"),
    "undefined": ("= part;", "= part * (1 << threadIdx.x);"),
}


def run(capsys: pytest.CaptureFixture[str], path: Path, *words: str) -> tuple[int, list[str]]:
    code = main(["--project", str(ROOT), "-q", "test", str(path), *words])
    return code, capsys.readouterr().out.splitlines()


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COLUMNS", "400")
    path = tmp_path / "normalize.cu"
    path.write_text(RECIPE, encoding="utf-8")
    return path


def test_it_is_short() -> None:
    assert len(RECIPE.splitlines()) <= 30


def test_it_runs_without_a_check(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, program) == (0, ["pass", "normalize.cu, the emulator, sm_90, release: passed"])


@pytest.mark.parametrize("check", FAULTS)
def test_it_is_clean_under_a_check(program: Path, check: str, capsys: pytest.CaptureFixture[str]) -> None:
    passed = f"normalize.cu, the emulator, sm_90, release, {check} check: passed"
    assert run(capsys, program, "--sanitize", check) == (0, ["pass", passed])


@pytest.mark.parametrize("check", FAULTS)
def test_broken_it_is_reported_as_the_page_says(program: Path, check: str, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = FAULTS[check]
    assert RECIPE.count(old) == 1
    program.write_text(RECIPE.replace(old, new), encoding="utf-8")
    (told,) = re.findall(rf"^\| .* \| `{check}` \| `(.*)` \|$", PAGE, re.MULTILINE)
    code, lines = run(capsys, program, "--sanitize", check)
    assert (code, lines[0]) == (1, f"FAIL: {told}")
