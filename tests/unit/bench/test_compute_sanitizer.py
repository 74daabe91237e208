"""benchmarks/compute_sanitizer.py and check_table.py: what the tools print is understood, whatever becomes of a run."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"

CLEAN = "========= COMPUTE-SANITIZER\npass\n========= ERROR SUMMARY: 0 errors\n"
OUT_OF_BOUNDS = """========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at page_past_the_cache<(bool)1>(const int *, const int *, int, int *)+0x1a0 in memory.cu:22
=========     by thread (0,0,0) in block (0,0,0)
=========
========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on CUDA API call
========= Target application returned an error
========= ERROR SUMMARY: 17 errors
"""
HAZARD = """========= COMPUTE-SANITIZER
========= Warning: Race reported between Write access at plain_flag+0x100 in races.cu:67
=========     and Read access at plain_flag+0x120 in races.cu:68 [62 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)
"""
# nvcc: the program is a script; `stuck broken` never ends. compute-sanitizer: finds something in what is broken.
NVCC = r"""#!/bin/sh
for last; do :; done
[ "$1" = --version ] && { echo "release 13.0"; exit 0; }
cat > "$last" <<'END'
#!/bin/sh
[ "$1" = --list ] && { echo "fault stuck"; echo "fault torn"; echo "legal odd"; exit 0; }
case "$1" in stuck|torn|odd) ;; *) echo "usage: CASE broken|healthy"; exit 2 ;; esac
[ "$1 $2" = "stuck broken" ] && sleep 600
[ "$1 $2" = "torn broken" ] && { echo "FAIL: out[0] is 1, expected is 2"; exit 1; }
echo pass
END
chmod +x "$last"
"""
TOOL = r"""#!/bin/sh
[ "$1" = --version ] && { echo "Version 2025.3"; exit 0; }
while [ "${1#--}" != "$1" ]; do shift 2; done
echo "========= COMPUTE-SANITIZER"
"$@"
[ "$3" = broken ] && { echo "========= Something is wrong"; echo "========= ERROR SUMMARY: 1 error"; exit 0; }
echo "========= ERROR SUMMARY: 0 errors"
"""


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    return importlib.import_module("compute_sanitizer")


@pytest.mark.parametrize(
    ("tool", "output", "code", "verdict", "errors", "warnings", "text"),
    [
        ("memcheck", CLEAN, 0, "clean", 0, 0, ""),
        ("memcheck", OUT_OF_BOUNDS, 1, "found", 17, 0, "Invalid __global__ read of size 4 bytes"),
        ("racecheck", HAZARD, 0, "found", 0, 1, "Warning: Race reported between Write access"),
        ("racecheck", "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)", 0, "clean", 0, 0, ""),
        ("synccheck", "========= Error: No attachable process found", 1, "error", 0, 0, "Error: No attachable"),
        ("gpu", "pass\n", 0, "clean", 0, 0, ""),
        ("gpu", "FAIL: out[0] is 1, expected is 2\n", 1, "wrong", 0, 0, "FAIL: out[0]"),
        ("gpu", "FAIL: the kernel: misaligned address\n", 1, "crash", 0, 0, "FAIL: the kernel"),
    ],
)
def test_what_a_tool_prints_becomes_a_verdict(
    scripts: ModuleType, tool: str, output: str, code: int, verdict: str, errors: int, warnings: int, text: str
) -> None:
    run = scripts.judge(scripts.Run("case", "broken", tool), output, code)
    assert (run.verdict, run.errors, run.warnings) == (verdict, errors, warnings)
    assert run.text.startswith(text) and bool(run.text) == bool(text)


def run_with_stand_ins(scripts: ModuleType, monkeypatch: pytest.MonkeyPatch, folder: Path, *more: str) -> list[dict]:
    for name, text in (("nvcc", NVCC), ("compute-sanitizer", TOOL)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder) + os.pathsep + os.environ["PATH"])
    monkeypatch.setattr(sys, "argv", ["x", str(folder / "out.json"), "--jobs", "5", *more])
    assert scripts.main() == 0
    record = json.loads((folder / "out.json").read_text())
    assert record["environment"]["compute_sanitizer"] == "Version 2025.3"
    return record["runs"]


def test_a_run_without_an_end_is_a_hang_and_the_others_go_on(
    scripts: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runs = run_with_stand_ins(scripts, monkeypatch, tmp_path, "--timeout", "1")
    verdicts = {(run["case"], run["twin"]): set() for run in runs}
    for run in runs:
        verdicts[run["case"], run["twin"]].add(run["verdict"])
    assert verdicts == {
        ("stuck", "broken"): {"hang"},
        ("torn", "broken"): {"wrong", "found"},
        ("stuck", "healthy"): {"clean"},
        ("torn", "healthy"): {"clean"},
        ("odd", "healthy"): {"clean"},
    }


def test_runs_past_the_budget_are_told_as_not_run(
    scripts: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runs = run_with_stand_ins(scripts, monkeypatch, tmp_path, "--budget", "-1")
    assert {run["verdict"] for run in runs} == {"not run"}


def test_a_missing_tool_is_named(
    scripts: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(scripts, "find_tool", lambda name, *_: None)
    monkeypatch.setattr(sys, "argv", ["x", str(tmp_path / "out.json")])
    assert scripts.main() == 3
    assert "nvcc and compute-sanitizer not found" in capsys.readouterr().err


def test_the_table_has_a_column_for_each_check_and_tells_false_alarms(scripts: ModuleType) -> None:
    table = importlib.import_module("check_table")
    run = scripts.Run
    emulator = [
        run("torn", "broken", "race", "found", text="FAIL: torn: block (0,0,0): …"),
        run("torn", "healthy", "race", "clean"),
        run("lost", "broken", "race", "wrong"),
        run("odd", "healthy", "race", "found", text="FAIL: odd: block (0,0,0): …"),
    ]
    lines = table.render(emulator, [run("torn", "broken", "racecheck", "hang")]).splitlines()
    assert "| torn | ? | **found** | ? | ? | ? | ? | hang | ? | ? |" in lines
    assert "- race on healthy odd: found FAIL: odd: block (0,0,0): …" in lines
    assert table.complaints(emulator) == [
        "lost: no check finds it",
        "odd: healthy, and race says: FAIL: odd: block (0,0,0): …",
    ]
