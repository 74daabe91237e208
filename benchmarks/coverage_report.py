"""Which lines run: csrc by gcov under quick cases on the emulator, sparkctl by coverage.py under its tests.

    python benchmarks/coverage_report.py [--head-dim 64] [--every 4] [--tests tests/unit tests/cli] [--only cpp|python]

Builds an instrumented standalone runner in a folder of its own, runs every fourth quick case of every kernel at one
head_dim through it, runs the tests under pytest-cov, and writes one report, report.txt and report.json, over both.
A line that several variants compile counts once: it has run if it ran in any of them. `make cov` is this script.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparkctl.build import Edge

ROOT = Path(__file__).resolve().parent.parent
# The lines as they are written: optimised code has fewer. What runs often is compiled with -O1 all the same.
KERNEL_OPTIONS = "--coverage -O0"
EMULATOR_OPTIONS = "--coverage -O1"
KERNELS, MACHINERY, PYTHON = "kernels", "emulator and runner", "sparkctl"
NOTES = {
    KERNELS: "A template that no variant here instantiates, and what only a GPU compiles, is in no row.",
    MACHINERY: "By the same cases. tests/emulator, which makes things go wrong, has programs of its own and is not "
    "counted; csrc/bindings is not in the runner.",
    PYTHON: "In the tests' own processes.",
}

Lines = dict[int, bool]  # line number: whether it ran


@dataclass(frozen=True)
class FileCoverage:
    path: str
    lines: Lines

    @property
    def covered(self) -> int:
        return sum(self.lines.values())

    @property
    def missing(self) -> list[int]:
        return sorted(line for line, ran in self.lines.items() if not ran)


def main() -> int:
    arguments = _parse()
    folder: Path = arguments.out.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    parts: dict[str, list[FileCoverage]] = {}
    if arguments.only != "python":
        files = measure_kernels(folder, arguments.head_dim, arguments.every, arguments.jobs)
        parts[KERNELS] = [file for file in files if not is_machinery(file)]
        parts[MACHINERY] = [file for file in files if is_machinery(file)]
    if arguments.only != "cpp":
        parts[PYTHON] = measure_python(folder, arguments.tests, arguments.jobs)
    text = render(parts)
    (folder / "report.txt").write_text(text, encoding="utf-8")
    (folder / "report.json").write_text(json.dumps(as_json(parts), indent=1) + "\n", encoding="utf-8")
    print(text, end="")
    print(f"written: {folder / 'report.txt'} and report.json")
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--head-dim", default="64", help="of the kernels' variants; commas list several")
    parser.add_argument("--every", type=int, default=4, metavar="N", help="run every Nth quick case")
    parser.add_argument("--tests", nargs="+", default=["tests/unit", "tests/cli"], help="what runs the Python code")
    parser.add_argument("--only", choices=["cpp", "python"])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "coverage")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1)
    return parser.parse_args()


# C++


def measure_kernels(folder: Path, head_dim: str, every: int, jobs: int) -> list[FileCoverage]:
    """Build, run, collect."""
    from sparkctl.arch import parse_arch
    from sparkctl.build import plan_build
    from sparkctl.build.paths import make_links
    from sparkctl.registry import find_project, load_registry, select_variants
    from sparkctl.toolchain import find_toolchain

    registry = load_registry(find_project(ROOT) / "flags.yaml")
    arch = parse_arch("sm_90")
    where = {"head_dim": head_dim.split(","), "dtype": ["bf16"]}
    variants = select_variants(registry, (), arch=arch, where=where)
    toolchain = find_toolchain()
    plan = plan_build(
        registry,
        variants,
        arch=arch,
        backend="emulator",
        sets={"extra_host": KERNEL_OPTIONS},
        toolchain=toolchain,
        environ=os.environ,
        build_root=folder,
        runner=True,
    )
    make_links(plan.paths)
    link = plan.links[1]
    edges = list(link.taken(plan.edges))
    gcov = gcov_of(toolchain.require_host().path)
    _say(f"compiling {len(edges)} objects with {KERNEL_OPTIONS}")
    objects = [ROOT / edge.output for edge in edges]
    newest = max(path.stat().st_mtime for path in (ROOT / "csrc").rglob("*") if path.is_file())
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(lambda edge: _compile(edge, newest), edges))
    runner = ROOT / link.output
    argv = [word for word in link.argv if word != "@{objects}"]
    _run([word.replace("{out}", str(runner)) for word in argv] + [*map(str, objects), "--coverage"])
    for data in runner.parent.rglob("*.gcda"):
        data.unlink()  # of an earlier run
    files = _export(folder / "cases", [variant.name for variant in variants], every, jobs)
    _say(f"running {len(files)} cases in {runner.name}")
    _run_cases(runner, files, jobs)
    _say("collecting")
    with ThreadPoolExecutor(jobs) as pool:
        reports = pool.map(lambda path: gcov_report(gcov, path), objects)
        return merge_gcov(report for report in reports)


def gcov_of(compiler: Path) -> str:
    """The gcov that reads what this g++ writes: beside it, with the same suffix."""
    beside = compiler.with_name(compiler.name.replace("g++", "gcov"))
    return str(beside) if beside != compiler and beside.exists() else "gcov"


def gcov_report(gcov: str, built: Path) -> dict[str, Any]:
    """gcov's JSON for one object."""
    notes = built.with_suffix(".gcno")
    done = _run([gcov, "--json-format", "--stdout", str(notes)])
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def merge_gcov(reports: Iterable[Mapping[str, Any]]) -> list[FileCoverage]:
    """Files of csrc by name. A template's line is there once an instantiation, and a header's once an object."""
    merged: dict[str, Lines] = {}
    for report in reports:
        for file in report["files"]:
            path = os.path.relpath(ROOT / file["file"], ROOT)  # the compiler's are relative to ROOT
            if not path.startswith("csrc/"):
                continue
            lines = merged.setdefault(path, {})
            for line in file["lines"]:
                number = int(line["line_number"])
                lines[number] = lines.get(number, False) or line["count"] > 0
    return [FileCoverage(path, lines) for path, lines in sorted(merged.items()) if lines]


def is_machinery(file: FileCoverage) -> bool:
    """What runs kernels and judges them."""
    return file.path.startswith(("csrc/emulator/", "csrc/runner/"))


def _compile(edge: Edge, newest_source: float) -> None:
    """Unless the object is there, newer than every source and made by the same command."""
    options = EMULATOR_OPTIONS if edge.group == "emulator" else KERNEL_OPTIONS
    argv = [*edge.argv, *options.split()]
    output, command = ROOT / edge.output, ROOT / f"{edge.output}.command"
    text = shlex.join(argv)
    if output.exists() and output.stat().st_mtime > newest_source and command.read_text(encoding="utf-8") == text:
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    output.unlink(missing_ok=True)
    command.write_text(text, encoding="utf-8")
    _run(argv)


def _export(folder: Path, names: Sequence[str], every: int, jobs: int) -> list[Path]:
    _say("writing the cases")
    with ProcessPoolExecutor(jobs) as pool:
        written = pool.map(partial(_export_variant, folder, every), names)
        return [path for paths in written for path in paths]


def _export_variant(folder: Path, every: int, name: str) -> list[Path]:
    """Case files of one variant, in a process of its own."""
    from sparkctl.registry import find_project, load_registry, select_variants
    from sparkctl.testing.cases import cases_for, has_cases
    from sparkctl.testing.export import recorder_for, refusal
    from sparkctl.testing.results import Selection
    from sparkctl.workflows.export import write_case

    registry = load_registry(find_project(ROOT) / "flags.yaml")
    (variant,) = select_variants(registry, (name,))
    if not has_cases(variant.kernel):
        return []
    cases = [case for case in cases_for(variant, "quick") if not refusal(case)][::every]
    selection = Selection(variant, tuple(cases))
    recorder = recorder_for(registry)
    return [write_case(recorder, selection, case, 0, folder)[0] for case in cases]


def _run_cases(runner: Path, files: Sequence[Path], jobs: int) -> None:
    """Counters of one process are not atomic, so each runs its blocks on one thread."""
    environ = {**os.environ, "SPARKCTL_EMULATOR_THREADS": "1"}
    shares = [share for i in range(jobs) if (share := files[i::jobs])]
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(lambda share: _run([str(runner), *map(str, share)], environ), shares))


# Python


def measure_python(folder: Path, tests: Sequence[str], jobs: int) -> list[FileCoverage]:
    """pytest-cov's JSON."""
    _say(f"running {' '.join(tests)}")
    report = folder / "python.json"
    pytest = [sys.executable, "-m", "pytest", "-q", "-n", str(jobs), "-m", "not gpu and not full and not nvcc", *tests]
    environ = {**os.environ, "COVERAGE_FILE": str(folder / "python.coverage")}
    _run([*pytest, "--cov=sparkctl", "--cov-report=", f"--cov-report=json:{report}"], environ)
    return python_files(json.loads(report.read_text(encoding="utf-8")))


def python_files(report: Mapping[str, Any]) -> list[FileCoverage]:
    """From coverage.py's JSON."""
    return [
        FileCoverage(path, dict.fromkeys(file["executed_lines"], True) | dict.fromkeys(file["missing_lines"], False))
        for path, file in sorted(report["files"].items())
        if file["executed_lines"] or file["missing_lines"]
    ]


# The report


def render(parts: Mapping[str, Sequence[FileCoverage]]) -> str:
    """A table a part: file, lines, covered, share, and what did not run."""
    everything = [file for files in parts.values() for file in files]
    width = max((len(file.path) for file in everything), default=4)
    blocks = []
    for name, files in parts.items():
        rows = [f"{name:<{width}}  lines  covered       %  not run"]
        rows += [_row(file.path, file.lines, width, ranges(file)) for file in files]
        rows += [_row("total", _all_lines(files), width, ""), NOTES[name]]
        blocks.append("\n".join(row.rstrip() for row in rows) + "\n")
    return "\n".join(blocks)


def ranges(file: FileCoverage) -> str:
    """`12-14, 20`: lines without code between two that did not run do not end a range."""
    spans: list[list[int]] = []
    before = False  # whether the line of code before this one ran
    for line, ran in sorted(file.lines.items()):
        if not ran and spans and not before:
            spans[-1][1] = line
        elif not ran:
            spans.append([line, line])
        before = ran
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def as_json(parts: Mapping[str, Sequence[FileCoverage]]) -> dict[str, Any]:
    """The same as data."""
    return {
        "schema_version": 1,
        "parts": {
            name: {
                "lines": len(_all_lines(files)),
                "covered": sum(file.covered for file in files),
                "files": [
                    {"path": f.path, "lines": len(f.lines), "covered": f.covered, "missing": f.missing} for f in files
                ],
            }
            for name, files in parts.items()
        },
    }


def _all_lines(files: Iterable[FileCoverage]) -> dict[Any, bool]:
    return {(file.path, line): ran for file in files for line, ran in file.lines.items()}


def _row(name: str, lines: Mapping[Any, bool], width: int, missing: str) -> str:
    covered = sum(lines.values())
    share = f"{100 * covered / len(lines):.1f}" if lines else "-"
    return f"{name:<{width}}  {len(lines):>5}  {covered:>7}  {share:>6}  {missing}"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _run(argv: Sequence[str], environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(argv, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"exit code {done.returncode}: {' '.join(argv[:8])} …\n{(done.stdout + done.stderr)[-4000:]}")
    return done


if __name__ == "__main__":
    sys.exit(main())
