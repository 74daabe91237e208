"""What compute-sanitizer's tools say of the broken set, on a GPU: every case, broken and healthy, under every tool.

python benchmarks/compute_sanitizer.py OUT.json [--source FILE] [--jobs N] [--timeout SECONDS] [--budget SECONDS]

Needs a CUDA device, nvcc and compute-sanitizer (on PATH or under CUDA_HOME). A run without an end within the time limit
is kept as `hang`: a broken barrier may wait for ever. Runs that the budget leaves no time for are kept as `not run`.
check_table.py puts the file beside the emulator's verdicts.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "tests" / "emulator" / "broken" / "all.cu"
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
NO_TOOL = "gpu"  # the program alone
_SUMMARY = re.compile(
    r"ERROR SUMMARY: (?P<count>\d+) errors?|RACECHECK SUMMARY: \d+ hazards? displayed "
    r"\((?P<errors>\d+) errors?, (?P<warnings>\d+) warnings?\)"
)
_BANNER = ("COMPUTE-SANITIZER", "RACECHECK SUMMARY", "ERROR SUMMARY", "Target application returned", "LEAK SUMMARY")


@dataclass(frozen=True)
class Run:
    """One case under one tool. `verdict` is found, clean, wrong, crash, hang, error or not run."""

    case: str
    twin: str
    tool: str
    verdict: str = "not run"
    errors: int = 0
    warnings: int = 0
    text: str = ""
    seconds: float = 0.0


def main() -> int:
    """Compile, run, count, write. 3 where a tool or a device is missing, 1 where the device did not survive."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--source", type=Path, default=SOURCE, help="a program of the set instead of all of them")
    parser.add_argument("--jobs", type=int, default=max(1, min(12, len(os.sched_getaffinity(0)) - 2)))
    parser.add_argument("--timeout", type=float, default=20.0, metavar="SECONDS", help="of one run")
    parser.add_argument("--budget", type=float, default=210.0, metavar="SECONDS", help="of all runs")
    parser.add_argument("--arch", default="sm_90")
    options = parser.parse_args()
    if options.out.suffix != ".json":
        parser.error(f"{options.out} does not end in .json")
    nvcc, tool = find_tool("nvcc", "bin"), find_tool("compute-sanitizer", "bin", "compute-sanitizer")
    missing = [name for name, path in (("nvcc", nvcc), ("compute-sanitizer", tool)) if path is None]
    if nvcc is None or tool is None:
        print(f"error: {' and '.join(missing)} not found on PATH or under CUDA_HOME", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory(prefix="sparkctl-broken-") as folder:
        return measure(options, nvcc, tool, Path(folder))


def find_tool(name: str, *folders: str) -> str | None:
    """On PATH, else under CUDA_HOME or the usual folder of a toolkit."""
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    places = [str(Path(home) / folder) for home in homes if home for folder in folders]
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(places))


def measure(options: argparse.Namespace, nvcc: str, tool: str, folder: Path) -> int:
    """The JSON file, and a line for each verdict's count."""
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    program = folder / options.source.stem
    include = str(ROOT / "csrc")
    compile_command = [nvcc, "-std=c++17", "-I", include, "-arch", options.arch, "-lineinfo", str(options.source)]
    done = subprocess.run([*compile_command, "-o", str(program)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"error: {' '.join(compile_command)}\n{done.stdout}{done.stderr}", file=sys.stderr)
        return 1
    wanted = plan_runs(subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout)
    healthy = next(run.case for run in wanted if run.twin == "healthy")
    if (trouble := probe(program, healthy, options.timeout)) is not None:
        print(f"error: no healthy case runs on a device here: {trouble}", file=sys.stderr)
        return 3
    ends = time.monotonic() + options.budget
    with ThreadPoolExecutor(options.jobs) as pool:
        runs = list(pool.map(lambda run: run_one(run, program, tool, options.timeout, ends), wanted))
    trouble = probe(program, healthy, options.timeout)
    chosen = "" if options.source == SOURCE else f" --source {os.path.relpath(options.source, ROOT)}"
    record = {
        "schema_version": 1,
        "environment": describe_environment(nvcc, tool),
        "command": f"python benchmarks/compute_sanitizer.py {options.out.name} --jobs {options.jobs} "
        f"--timeout {options.timeout:g} --budget {options.budget:g} --arch {options.arch}{chosen}",
        "started": started,
        "device_after": trouble or "healthy",
        "runs": [asdict(run) for run in runs],
    }
    write_json(options.out, record)
    print("\n".join(count_lines(runs)))
    print(f"saved to {options.out}")
    if trouble:
        print(f"error: the device did not survive: {trouble}", file=sys.stderr)
    return 1 if trouble else 0


def plan_runs(listing: str) -> list[Run]:
    """Of the program's `fault NAME` and `legal NAME` lines: broken ones first, for these the budget must reach."""
    cases = [tuple(line.split()) for line in listing.splitlines()]
    pairs = [(name, "broken") for kind, name in cases if kind == "fault"] + [(name, "healthy") for _, name in cases]
    return [Run(name, twin, tool) for name, twin in pairs for tool in (NO_TOOL, *TOOLS)]


def run_one(run: Run, program: Path, tool: str, timeout_s: float, ends: float) -> Run:
    """The run with its verdict; the whole process group ends with the time limit."""
    began = time.monotonic()
    if began > ends:
        return run
    under = [] if run.tool == NO_TOOL else [tool, "--tool", run.tool, "--print-limit", "20"]
    process = subprocess.Popen(
        [*under, str(program), run.case, run.twin],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        output = end_group(process)
        judged = replace(judge(run, output, 0), verdict="hang")
    else:
        judged = judge(run, output, process.returncode)
    return replace(judged, seconds=round(time.monotonic() - began, 2))


def end_group(process: subprocess.Popen[str]) -> str:
    """Kill the tool and the program under it; what they had said."""
    os.killpg(process.pid, signal.SIGKILL)
    try:
        output, _ = process.communicate(timeout=10)
    except subprocess.TimeoutExpired:  # a driver that does not let go of a kernel
        return ""
    return output


def judge(run: Run, output: str, code: int) -> Run:
    """Parse what a tool, or the program alone, printed."""
    lines = output.splitlines()
    if run.tool == NO_TOOL:
        said = next((line for line in lines if line.startswith("FAIL: ")), "")
        if code == 0:
            return replace(run, verdict="clean")
        if said.startswith("FAIL: out["):
            return replace(run, verdict="wrong", text=said)
        return replace(run, verdict="crash", text=said or f"exit code {code}")
    told = [line.removeprefix("=========").strip() for line in lines if line.startswith("=========")]
    first = next((line for line in told if line and not any(word in line for word in _BANNER)), "")
    summaries = list(_SUMMARY.finditer(output))
    if not summaries:
        return replace(run, verdict="error", text=first or "\n".join(lines[-3:]))
    errors = int(summaries[-1]["count"] or summaries[-1]["errors"] or 0)
    warnings = int(summaries[-1]["warnings"] or 0)
    if errors + warnings == 0:
        return replace(run, verdict="clean")
    return replace(run, verdict="found", errors=errors, warnings=warnings, text=first)


def probe(program: Path, case: str, timeout_s: float) -> str | None:
    """None when the healthy case still runs."""
    try:
        done = subprocess.run(
            [program, case, "healthy"], capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no end within {timeout_s:g} s"
    return None if done.returncode == 0 else (done.stdout + done.stderr).strip() or f"exit code {done.returncode}"


def describe_environment(nvcc: str, tool: str) -> dict[str, object]:
    """Device, driver, tools and revision."""
    sys.path.insert(0, str(ROOT))
    from sparkctl.workflows.stamp import read_stamp

    stamp = read_stamp(ROOT)
    return {
        "device": first_line(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]),
        "nvcc": last_line([nvcc, "--version"]),
        "compute_sanitizer": last_line([tool, "--version"]),
        "commit": stamp.commit,
        "dirty": stamp.dirty,
    }


def first_line(command: Sequence[str]) -> str | None:
    return (_lines(command) or [None])[0]


def last_line(command: Sequence[str]) -> str | None:
    return (_lines(command) or [None])[-1]


def _lines(command: Sequence[str]) -> list[str]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]


def count_lines(runs: Sequence[Run]) -> list[str]:
    """`racecheck  broken   found 12, clean 33` for each tool and twin."""
    rows = []
    for tool in (NO_TOOL, *TOOLS):
        for twin in ("broken", "healthy"):
            counts = Counter(run.verdict for run in runs if (run.tool, run.twin) == (tool, twin))
            rows.append(f"{tool:10} {twin:8} " + ", ".join(f"{name} {n}" for name, n in counts.most_common()))
    return rows


def write_json(path: Path, record: object) -> None:
    """Under a temporary name first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    fresh.replace(path)


if __name__ == "__main__":
    sys.exit(main())
