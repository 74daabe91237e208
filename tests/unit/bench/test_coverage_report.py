"""benchmarks/coverage_report.py: gcov's and coverage.py's data merged line by line, and the report over both."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("coverage_report", ROOT / "benchmarks" / "coverage_report.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["coverage_report"] = module
    spec.loader.exec_module(module)
    return module


def gcov_json(name: str, *lines: tuple[int, int]) -> dict[str, object]:
    return {"files": [{"file": name, "lines": [{"line_number": n, "count": count} for n, count in lines]}]}


def test_a_line_has_run_if_any_variant_ran_it(script: ModuleType) -> None:
    first = gcov_json("./csrc/a.cuh", (3, 0), (3, 7), (4, 0), (9, 1))  # two instantiations of line 3
    second = gcov_json(str(ROOT / "csrc" / "a.cuh"), (4, 2), (5, 0), (9, 0))
    (file,) = script.merge_gcov([first, gcov_json("/usr/include/stdio.h", (1, 1)), second])
    assert (file.path, file.lines) == ("csrc/a.cuh", {3: True, 4: True, 9: True, 5: False})
    assert (file.covered, file.missing) == (3, [5])


@pytest.mark.parametrize(
    ("path", "machinery"),
    [("csrc/emulator/ptx/mma.h", True), ("csrc/runner/main.cpp", True), ("csrc/attention/swizzle.h", False)],
)
def test_kernels_and_what_runs_them_are_told_apart(script: ModuleType, path: str, machinery: bool) -> None:
    assert script.is_machinery(script.FileCoverage(path, {1: True})) is machinery


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ({1: True, 2: True}, ""),
        ({1: False}, "1"),
        ({1: False, 2: False, 5: False, 6: True, 8: False}, "1-5, 8"),
        ({8: False, 1: True, 2: False, 4: True}, "2, 8"),
    ],
)
def test_what_did_not_run_is_told_in_ranges(script: ModuleType, lines: dict[int, bool], text: str) -> None:
    assert script.ranges(script.FileCoverage("f", lines)) == text


def test_one_report_holds_both_languages(script: ModuleType) -> None:
    python = {"files": {"sparkctl/a.py": {"executed_lines": [1, 2], "missing_lines": [4]}, "sparkctl/empty.py": {
        "executed_lines": [], "missing_lines": []}}}  # fmt: skip
    parts = {
        script.KERNELS: script.merge_gcov([gcov_json("csrc/a.cuh", (3, 1))]),
        script.MACHINERY: script.merge_gcov([gcov_json("csrc/emulator/b.cpp", (1, 0), (2, 1))]),
        script.PYTHON: script.python_files(python),
    }
    lines = script.render(parts).splitlines()
    assert lines[:3] == [
        "kernels              lines  covered       %  not run",
        "csrc/a.cuh               1        1   100.0",
        "total                    1        1   100.0",
    ]
    assert "csrc/emulator/b.cpp      2        1    50.0  1" in lines
    assert "sparkctl/a.py            3        2    66.7  4" in lines
    totals = {name: (part["covered"], part["lines"]) for name, part in script.as_json(parts)["parts"].items()}
    assert totals == {"kernels": (1, 1), "emulator and runner": (1, 2), "sparkctl": (2, 3)}


def test_gcov_of_a_real_compile_tells_the_branch_that_did_not_run(script: ModuleType, tmp_path: Path) -> None:
    """The object's name has dots, as a variant's, and its file lies under csrc."""
    source = tmp_path / "csrc" / "a.cpp"
    source.parent.mkdir()
    source.write_text("int main(int argc, char**) {\n  if (argc > 1)\n    return 1;\n  return 0;\n}\n")
    built = tmp_path / "a.bf16.d64.o"
    options = ["--coverage", "-O0", f"-ffile-prefix-map={tmp_path}={ROOT}"]
    subprocess.run(["g++", *options, "-c", source, "-o", built], cwd=tmp_path, check=True)
    subprocess.run(["g++", built, "--coverage", "-o", tmp_path / "a"], cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "a"], check=True)
    (file,) = script.merge_gcov([script.gcov_report("gcov", built)])
    assert (file.path, file.missing) == ("csrc/a.cpp", [3])
    assert file.lines[4] is True
