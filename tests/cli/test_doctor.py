"""`sparkctl doctor`: screens, JSON and exit codes; what it finds is the workflow's own test."""

from __future__ import annotations

import json

import pytest

from sparkctl.cli.app import main
from sparkctl.workflows.doctor import Diagnosis
from sparkctl.workflows.finding import Finding

Capture = pytest.CaptureFixture[str]
GOOD = (
    Finding("python", "ok", "3.11.7", "/usr/bin/python3"),
    Finding(
        "nvcc", "warning", "12.0 works, and the wheels hold a newer one, 13.0.88", "/usr/bin/nvcc (PATH)", "export A"
    ),
    Finding("ncu", "absent", "none, so sparkctl profile cannot run", fix="install it"),
)
BAD = (*GOOD, Finding("ninja", "error", "not installed", fix="pip install ninja"), Finding("g++", "error", "not there"))

SCREEN_80 = """\
ok       python  3.11.7
                 at: /usr/bin/python3
warning  nvcc    12.0 works, and the wheels hold a newer one, 13.0.88
                 at: /usr/bin/nvcc (PATH)
                 fix: export A
absent   ncu     none, so sparkctl profile cannot run
                 fix: install it

build, regs and test can run here, the tests on the emulator; 1 warning
"""


@pytest.fixture
def findings(monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    """What the diagnosis consists of."""
    given: list[Finding] = list(GOOD)
    monkeypatch.setattr("sparkctl.workflows.doctor.diagnose", lambda *_: Diagnosis(tuple(given)))
    return given


@pytest.mark.parametrize("columns", [None, "80", "120"])
def test_a_machine_that_can_run_the_main_job(
    findings: list[Finding], capsys: Capture, monkeypatch: pytest.MonkeyPatch, columns: str | None
) -> None:
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    assert main(["doctor"]) == 0
    said = capsys.readouterr()
    assert said.out == SCREEN_80
    assert said.err == ""


def test_text_that_folds_stays_in_its_column(
    findings: list[Finding], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "warning  nvcc    12.0 works, and the wheels hold a newer\n" + " " * 17 + "one, 13.0.88\n" in out
    assert max(map(len, out.splitlines())) <= 60


def test_a_machine_that_cannot_exits_3_with_the_first_fault(findings: list[Finding], capsys: Capture) -> None:
    findings[:] = BAD
    assert main(["doctor"]) == 3
    said = capsys.readouterr()
    assert said.out.endswith("build, regs and test cannot run here, for want of: ninja, g++; 1 warning\n")
    assert said.err == "error: ninja: not installed\nhint: pip install ninja\n"


def test_json_has_every_finding(findings: list[Finding], capsys: Capture) -> None:
    findings[:] = BAD
    assert main(["doctor", "--json"]) == 3
    data = json.loads(capsys.readouterr().out)
    assert (data["command"], data["can_run"], data["missing"]) == ("doctor", False, ["ninja", "g++"])
    assert [finding["name"] for finding in data["findings"]] == [finding.name for finding in BAD]
    assert data["findings"][2] == {
        "name": "ncu",
        "state": "absent",
        "what": "none, so sparkctl profile cannot run",
        "where": None,
        "fix": "install it",
    }


def test_a_device_is_said_in_the_last_line(findings: list[Finding], capsys: Capture) -> None:
    findings.append(Finding("driver", "ok", "580.1"))
    assert main(["doctor"]) == 0
    assert capsys.readouterr().out.endswith("\nbuild, regs and test can run here; 1 warning\n")
