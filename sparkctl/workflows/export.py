"""`sparkctl test --export`: the selected cases as files for the standalone runner. Nothing is built or launched."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sparkctl.build import RUNNER_NAME, default_build_root
from sparkctl.build.plan import changed_flags, folder_name
from sparkctl.errors import WorkFailed
from sparkctl.interrupts import check_interrupt
from sparkctl.registry import Registry
from sparkctl.testing.case_file import CASE_SUFFIX, encode_case
from sparkctl.testing.export import Recorder, export_case, recorder_for, refusal
from sparkctl.testing.model import Case
from sparkctl.testing.results import CaseSkip, Selection
from sparkctl.testing.suite import Outcome, one_torch_thread
from sparkctl.workflows.suite import SuiteOptions, SuitePlan, Watcher
from sparkctl.workflows.test import runner_options


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What was written, and how to run it."""

    folder: Path
    variants: int
    files: tuple[Path, ...]
    size_bytes: int
    left_out: tuple[CaseSkip, ...]  # each case once, whatever the variant
    others: int  # case files that were in the folder before, and still are
    build_command: str
    run_command: str


def export_suite(
    registry: Registry,
    plan: SuitePlan,
    options: SuiteOptions,
    folder: Path,
    *,
    watcher: Watcher,
    environ: Mapping[str, str] = os.environ,
) -> ExportReport:
    """Write FOLDER/VARIANT/CASE.case, each file whole or not at all; whatever else lies there stays.

    Raises WorkFailed where a file cannot be written.
    """
    recorder = recorder_for(registry)
    written: dict[Path, int] = {}
    left_out: dict[str, CaseSkip] = {}
    watcher.start(plan)
    try:
        with one_torch_thread():
            for selection, case in ((s, case) for s in plan.selections for case in s.cases):
                check_interrupt()
                if reason := refusal(case):
                    left_out.setdefault(case.id, CaseSkip(case.id, reason))
                else:
                    written.update([write_case(recorder, selection, case, options.seed, folder)])
                watcher.case(selection, case, Outcome(skip=reason))
    except OSError as error:
        raise WorkFailed(f"{error.filename or folder} cannot be written: {error.strerror or error}") from error
    finally:
        watcher.stop()
    present = set(folder.rglob(f"*{CASE_SUFFIX}"))
    return ExportReport(
        folder=folder,
        variants=len({path.parent for path in written}),
        files=tuple(written),
        size_bytes=sum(written.values()),
        left_out=tuple(left_out.values()),
        others=len(present - written.keys()),
        build_command=build_command(plan, options),
        run_command=run_command(registry, plan, options, folder, environ),
    )


def write_case(recorder: Recorder, selection: Selection, case: Case, seed: int, folder: Path) -> tuple[Path, int]:
    """The file's path and size."""
    data = encode_case(export_case(recorder, selection.variant, case, seed))
    path = folder / selection.variant.name / f"{case.id}{CASE_SUFFIX}"
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        draft.write_bytes(data)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return path, len(data)


def build_command(plan: SuitePlan, options: SuiteOptions) -> str:
    """What builds the runner with the exported variants."""
    words = ["sparkctl", *(["--project", str(options.project)] if options.project else []), "build", *options.patterns]
    for axis, values in options.where.items():
        words += ["--where", f"{axis}={','.join(values)}"]
    words += ["--runner", "--backend", plan.backend, "--arch", plan.arch.name]
    if options.profile != "release":
        words += ["--profile", options.profile]
    for name, value in options.sets.items():
        words += ["--set", f"{name}={value}"]
    return shlex.join(words)


def run_command(
    registry: Registry, plan: SuitePlan, options: SuiteOptions, folder: Path, environ: Mapping[str, str]
) -> str:
    """What runs the exported cases."""
    changed = changed_flags(registry, options.sets, environ)
    build = default_build_root(registry, environ) / folder_name(plan.backend, plan.arch, options.profile, changed)
    runner = build / RUNNER_NAME
    here = Path.cwd()
    shown = str(runner.relative_to(here)) if runner.is_relative_to(here) else str(runner)
    return shlex.join([shown, *runner_options(plan, options), str(folder)])
