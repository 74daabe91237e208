"""Which check finds which fault of the broken set: the emulator's, and beside them a GPU's compute-sanitizer.

python benchmarks/check_table.py [--gpu compute_sanitizer.json...] [--json OUT.json] [--markdown OUT.md]

Runs every case of tests/emulator/broken, broken and healthy, in the emulator without a check and under each of its
checks, and prints a table. --gpu takes files that compute_sanitizer.py wrote, a later one adding its cases. Exit code 1
when a fault is found by none of the emulator's checks, or when one of them reports a case that is healthy or legal.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests" / "emulator"), str(ROOT)]

from compute_sanitizer import NO_TOOL, TOOLS, Run, plan_runs, write_json  # noqa: E402

EMULATOR = ("plain", "race", "memory", "undefined")
MARKS = {"found": "**found**", "clean": "·", "not run": "?"}


def main() -> int:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", type=Path, nargs="+", default=[], metavar="FILE", help="by compute_sanitizer.py")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    options = parser.parse_args()
    gpu = [json.loads(path.read_text(encoding="utf-8")) for path in options.gpu]
    runs = run_emulator()
    on_gpu = [Run(**run) for file in gpu for run in file["runs"]]
    text = render(runs, on_gpu)
    print(text)
    if options.markdown:
        options.markdown.write_text(text + "\n", encoding="utf-8")
    if options.json:
        record: dict[str, Any] = {"schema_version": 1, "runs": [asdict(run) for run in runs], "gpu": gpu}
        write_json(options.json, record)
    faults = complaints(runs)
    print("\n".join(faults), file=sys.stderr, end="\n" if faults else "")
    return 1 if faults else 0


def run_emulator() -> list[Run]:
    """Every case without a check and under each; two processes at a time."""
    from checked import BROKEN, compile_checked, run_checked

    programs = {check: compile_checked(BROKEN / "all.cu", check) for check in EMULATOR}
    listing = _list(programs["plain"])
    wanted = [Run(run.case, run.twin, check) for run in plan_runs(listing) if run.tool == NO_TOOL for check in EMULATOR]

    def judge(run: Run) -> Run:
        verdict = run_checked(programs[run.tool], run.case, run.twin)
        return Run(run.case, run.twin, run.tool, name_verdict(verdict.end, verdict.text), text=verdict.text)

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(judge, wanted))


def name_verdict(end: str, text: str) -> str:
    """`found` is a report in the kernel's terms; wrong values alone are `wrong`."""
    if end != "fail":
        return {"pass": "clean"}.get(end, end)
    return "wrong" if text.startswith("FAIL: out[") else "found"


def render(runs: Sequence[Run], on_gpu: Sequence[Run]) -> str:
    """Markdown: a row for each fault, then what was reported of healthy and legal code."""
    columns = [*EMULATOR, *((NO_TOOL, *TOOLS) if on_gpu else ())]
    table = {(run.case, run.twin, run.tool): run for run in (*runs, *on_gpu)}
    broken = unique(run.case for run in runs if run.twin == "broken")
    lines = [
        "| fault | " + " | ".join(columns) + " |",
        "| --- |" + " --- |" * len(columns),
        *(f"| {case} | " + " | ".join(cell(table, case, tool) for tool in columns) + " |" for case in broken),
        "| found of " + str(len(broken)) + " | " + " | ".join(count(table, broken, tool) for tool in columns) + " |",
    ]
    healthy = unique(run.case for run in runs if run.twin == "healthy")
    alarms = [
        f"- {tool} on healthy {case}: {run.verdict} {run.text.splitlines()[0] if run.text else ''}".rstrip()
        for case in healthy
        for tool in columns
        if (run := table.get((case, "healthy", tool))) is not None and run.verdict not in ("clean", "not run")
    ]
    lines += [
        "",
        f"{len(healthy)} healthy and legal cases: " + ("every check passes all of them." if not alarms else ""),
    ]
    return "\n".join([*(line.rstrip() for line in lines), *alarms])


def cell(table: Mapping[tuple[str, str, str], Run], case: str, tool: str) -> str:
    run = table.get((case, "broken", tool))
    return MARKS.get(run.verdict, run.verdict) if run else "?"


def count(table: Mapping[tuple[str, str, str], Run], cases: Sequence[str], tool: str) -> str:
    return str(sum(table[case, "broken", tool].verdict == "found" for case in cases if (case, "broken", tool) in table))


def complaints(runs: Sequence[Run]) -> list[str]:
    """Faults that no check of the emulator finds, and reports of what is healthy."""
    found = {run.case for run in runs if run.twin == "broken" and run.verdict == "found"}
    missed = unique(run.case for run in runs if run.twin == "broken" and run.case not in found)
    alarms = [run for run in runs if run.twin == "healthy" and run.verdict != "clean"]
    return [f"{case}: no check finds it" for case in missed] + [
        f"{run.case}: healthy, and {run.tool} says: {run.text or run.verdict}" for run in alarms
    ]


def unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _list(program: Path) -> str:
    from checked import list_cases

    return "\n".join(f"{kind} {name}" for name, kind in list_cases(program).items())


if __name__ == "__main__":
    sys.exit(main())
