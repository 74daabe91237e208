"""`sparkctl test FILE.cu`: a program of one file in place of the project's kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sparkctl.cli.options import CliContext
from sparkctl.errors import UsageError

if TYPE_CHECKING:
    from sparkctl.registry import Registry
    from sparkctl.workflows.program import ProgramOptions


def program_among(patterns: Sequence[str]) -> Path | None:
    """The file that is named where kernels are. UsageError where it is not named alone."""
    from sparkctl.build.program import SUFFIXES

    files = [pattern for pattern in patterns if pattern.endswith(SUFFIXES) or is_path(pattern)]
    if not files:
        return None
    if len(patterns) > 1:
        raise UsageError(f"{files[0]}: a program is tested by itself", hint=f"sparkctl test {files[0]}")
    return Path(files[0])


def is_path(pattern: str) -> bool:
    """What no kernel's name or glob can be."""
    return "/" in pattern or pattern in (".", "..")


def refuse_options(program: Path, given: Mapping[str, object]) -> None:
    """UsageError for an option that a program has no use for."""
    for option, value in given.items():
        if value:
            raise UsageError(f"{option} is for the project's kernels, not for {program}", hint=f"leave out {option}")


def test_program(cli: CliContext, registry: Registry, options: ProgramOptions, *, json: bool) -> None:
    """Exit code 1 where the program failed."""
    from sparkctl.render.build_progress import ConsoleProgress
    from sparkctl.render.console import print_json, stderr_console, stdout_console
    from sparkctl.render.program import program_json, show_program
    from sparkctl.workflows.program import run_program

    progress = ConsoleProgress(stderr_console(cli), quiet=cli.verbosity < 0)
    report = run_program(_with_program_header(registry), options, progress=progress)
    if json:
        print_json(program_json(report))
    else:
        show_program(stdout_console(cli), report)
    if not report.passed:
        raise typer.Exit(1)


def _with_program_header(registry: Registry) -> Registry:
    """The project, or sparkctl's own where it has no program/program.h and no emulator."""
    from sparkctl.build.folders import own_csrc
    from sparkctl.registry import load_registry

    if (registry.root / "csrc" / "program").is_dir():
        return registry
    return load_registry(own_csrc().parent)
