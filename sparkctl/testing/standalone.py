"""Runs a variant's cases in the standalone runner: case files to a temporary folder, its lines back as outcomes."""

from __future__ import annotations

import os
import re
import select
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sparkctl.interrupts import check_interrupt
from sparkctl.testing.case_file import CASE_SUFFIX, encode_case
from sparkctl.testing.export import Recorder, export_case, refusal
from sparkctl.testing.model import Case
from sparkctl.testing.results import Selection, VariantResult
from sparkctl.testing.suite import Outcome, one_torch_thread, variant_result
from sparkctl.toolchain import start_tool

LOST = "error: the device was lost"
_LINE = re.compile(r"(?P<word>pass|FAIL) (?P<worst>\S+) \S+ (?P<case>[^\s:]+)(?:: (?P<failure>.*))?")


@dataclass(frozen=True, slots=True)
class StandaloneTarget:
    """The runner, and how cases run in it."""

    recorder: Recorder
    runner: Path
    seed: int = 0
    repeat: int = 1
    options: tuple[str, ...] = ()
    limit_s: float | None = None  # for one case; a kernel that never ends would hold whoever waits for it


class RunnerTooSlowError(Exception):
    """The runner said nothing for longer than a case may take."""


def run_standalone(
    target: StandaloneTarget,
    selection: Selection,
    on_case: Callable[[Case, Outcome], None] = lambda case, outcome: None,
) -> VariantResult:
    """As suite.run_variant. A case in which the runner dies is a failure, and the others go on without it."""
    start = time.monotonic()
    outcomes: list[tuple[Case, Outcome]] = []

    def note(case: Case, outcome: Outcome) -> None:
        outcomes.append((case, outcome))
        on_case(case, outcome)

    with TemporaryDirectory(prefix="sparkctl-cases-") as name:
        files: dict[Path, tuple[Case, int]] = {}
        with one_torch_thread():
            for number, case in enumerate(selection.cases):
                check_interrupt()
                if reason := refusal(case):
                    note(case, Outcome(skip=reason))
                    continue
                file = export_case(target.recorder, selection.variant, case, target.seed)
                path = Path(name) / f"{number:05}{CASE_SUFFIX}"
                path.write_bytes(encode_case(file))
                files[path] = (case, int(file.values["launches"]) * target.repeat)
        run_files(target, files, note)
    return variant_result(selection, outcomes, time.monotonic() - start)


def run_files(
    target: StandaloneTarget, files: dict[Path, tuple[Case, int]], note: Callable[[Case, Outcome], None]
) -> None:
    """Run the runner until every file has an outcome; a device that it lost is there again for the next process.

    Behind a case that took longer than it may, no other runs.
    """
    left = list(files)
    while left:
        said: list[str] = []
        try:
            for line in runner_lines(target, left, said):
                case, launches = files[left.pop(0)]
                while case.id != line["case"]:  # it could not use the file
                    note(case, Outcome(float("inf"), failure=" ".join(said[-1:])))
                    case, launches = files[left.pop(0)]
                note(case, outcome_of(line, launches))
        except RunnerTooSlowError:
            slow, *rest = (files[path][0] for path in left)
            note(slow, Outcome(float("inf"), failure=f"still running after {target.limit_s:g} s, and stopped"))
            for case in rest:
                note(case, Outcome(skip=f"not run: {slow.id} never ended"))
            return
        if left and not any(line.startswith(LOST) for line in said):
            case, _ = files[left.pop(0)]
            note(case, Outcome(float("inf"), failure=f"the runner ended: {' '.join(said[-3:])}"))


def outcome_of(line: re.Match[str], launches: int) -> Outcome:
    failure = line["failure"] if line["word"] == "FAIL" else None
    return Outcome(float(line["worst"]), 0 if failure else launches, failure)


def runner_lines(target: StandaloneTarget, paths: Sequence[Path], said: list[str]) -> Iterator[re.Match[str]]:
    """The verdicts as they come; what else the runner says goes into `said`, and how it ended last.

    RunnerTooSlowError where the target has a limit and the next verdict takes longer.
    """
    argv = [str(target.runner), *target.options, *map(str, paths)]
    process = start_tool(argv, cwd=paths[0].parent, env=os.environ)
    assert process.stdout is not None
    try:
        with process.stdout as stream:
            for raw in lines_within(stream.fileno(), target.limit_s):
                check_interrupt()
                line = raw.decode("utf-8", "replace")
                if match := _LINE.fullmatch(line):
                    yield match
                else:
                    said.append(line)
        code = process.wait()
        said.append(f"exit code {code}" if code >= 0 else f"killed by signal {-code}")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def lines_within(descriptor: int, limit_s: float | None) -> Iterator[bytes]:
    """The lines of a pipe to its end; RunnerTooSlowError where nothing comes for `limit_s`."""
    rest = b""
    while True:
        if not select.select([descriptor], [], [], limit_s)[0]:
            raise RunnerTooSlowError
        block = os.read(descriptor, 1 << 16)
        *lines, rest = (rest + block).split(b"\n")
        yield from lines
        if not block:
            if rest:
                yield rest
            return
