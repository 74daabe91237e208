"""`sparkctl test`: run the kernels' cases against the fp64 reference."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from sparkctl.cli.options import (
    Dtype,
    HeadDim,
    Json,
    Kernels,
    Profile,
    Sets,
    Where,
    cli_context,
    load_project,
    parse_where,
    split_commas,
)
from sparkctl.cli.test_program import program_among, refuse_options, test_program
from sparkctl.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

HELP = """Run the kernels' cases against the fp64 reference, on a GPU or on the CPU emulator.

What is missing is built first. An error is shown as a share of what the tolerance rule allows:
above 1 the case fails (docs/testing.md). Every failure comes with the command that reruns only it.

\b
Examples:
  sparkctl test                                     every variant
  sparkctl test 'attn_decode_*' --head-dim 128      a few variants
  sparkctl test attn_combine -k 'empty and not b3'  cases by name
  sparkctl test --schedule random --async-mode early --seed 7
  sparkctl test --last-failed                       what failed last time
  sparkctl test --backend cuda --full --junit test.xml
  sparkctl test attn_combine --runner               no Python beside them
  sparkctl test 'attn_*_mma' --sanitize race        data races
  sparkctl test my_kernel.cu --sanitize memory      a program of your own
  sparkctl test attn_combine --export cases/        files for sparkctl-runner

\b
Exit codes: 0 all passed, 1 a case or a build failed, 2 nothing selected,
3 no device for --backend cuda.
"""


GROUP_HINT = "write it as --group 4 or --group 4,8"
SEED_LIMIT = 2**63  # the emulator takes it as a 64-bit integer


class BackendChoice(StrEnum):
    auto = "auto"
    emulator = "emulator"
    cuda = "cuda"


class ScheduleChoice(StrEnum):
    ascending = "ascending"
    descending = "descending"
    random = "random"


class SanitizerChoice(StrEnum):
    race = "race"
    memory = "memory"
    undefined = "undefined"


class AsyncChoice(StrEnum):
    late = "late"
    early = "early"
    random = "random"


def register(app: typer.Typer) -> None:
    app.command("test", help=HELP)(test)


def test(
    ctx: typer.Context,
    kernels: Kernels = None,
    where: Where = None,
    head_dim: HeadDim = None,
    dtype: Dtype = None,
    group: Annotated[
        list[str] | None, typer.Option("--group", metavar="N", help="Only decode cases with this many heads a kv head.")
    ] = None,
    expression: Annotated[
        str | None,
        typer.Option("-k", metavar="EXPR", help="Cases by words of their ids and variants: 'causal and not large'."),
    ] = None,
    last_failed: Annotated[bool, typer.Option("--last-failed", help="Only what failed when it last ran.")] = False,
    full: Annotated[bool, typer.Option("--full", help="The larger set of cases.")] = False,
    backend: Annotated[
        BackendChoice, typer.Option("--backend", help="auto: a CUDA device if there is one, else the emulator.")
    ] = BackendChoice.auto,
    arch: Annotated[
        str | None, typer.Option("--arch", metavar="ARCH", help="One arch; else the device's, sm_90 for the emulator.")
    ] = None,
    profile: Profile = "release",
    sets: Sets = None,
    schedule: Annotated[
        ScheduleChoice | None, typer.Option("--schedule", help="The order in which the emulator resumes threads.")
    ] = None,
    async_mode: Annotated[
        AsyncChoice | None, typer.Option("--async-mode", help="When the bytes of the emulator's cp.async land.")
    ] = None,
    sanitize: Annotated[
        SanitizerChoice | None,
        typer.Option("--sanitize", help="Watch each access or operation of the kernels, in the emulator."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="S", help="Other random inputs; random orders too.")] = 0,
    repeat: Annotated[
        int, typer.Option("--repeat", metavar="N", min=1, help="Run each case N times; the bits must stay the same.")
    ] = 1,
    junit: Annotated[
        str | None,
        typer.Option("--junit", metavar="FILE", help="Write a JUnit report, one item a variant; its folder is made."),
    ] = None,
    runner: Annotated[
        bool, typer.Option("--runner", help="The standalone runner runs them: no Python beside the kernels.")
    ] = False,
    export: Annotated[
        str | None,
        typer.Option("--export", metavar="DIR", help="Write the cases as files for the runner, and run none."),
    ] = None,
    json: Json = False,
) -> None:
    from sparkctl.arch import parse_arch
    from sparkctl.registry import parse_sets
    from sparkctl.render.build_progress import ConsoleProgress
    from sparkctl.render.console import print_json, stderr_console, stdout_console
    from sparkctl.render.suite_progress import SuiteProgress
    from sparkctl.render.test import report_json, show_report
    from sparkctl.workflows.program import ProgramOptions
    from sparkctl.workflows.suite import SuiteOptions
    from sparkctl.workflows.test import plan_suite, run_suite

    cli = cli_context(ctx)
    program = program_among(kernels or ())
    registry = load_project(cli)
    if program:
        not_for_programs = {
            "--where": where, "--head-dim": head_dim, "--dtype": dtype, "--group": group, "-k": expression,
            "--last-failed": last_failed, "--full": full, "--repeat": repeat > 1, "--junit": junit, "--runner": runner,
            "--export": export, "--backend cuda": backend is BackendChoice.cuda,
        }  # fmt: skip
        refuse_options(program, not_for_programs)
        asked = ProgramOptions(
            program,
            arch=parse_arch(arch) if arch is not None else None,
            profile=profile,
            sets=parse_sets(registry, sets or ()),
            sanitizer=sanitize.value if sanitize else None,
            schedule=schedule.value if schedule else None,
            async_mode=async_mode.value if async_mode else None,
            seed=parse_seed(seed),
        )
        test_program(cli, registry, asked, json=json)
        return
    options = SuiteOptions(
        patterns=tuple(kernels or ()),
        where=parse_where(where, head_dim, dtype),
        groups=parse_groups(group),
        backend=backend.value,
        arch=parse_arch(arch) if arch is not None else None,
        profile=profile,
        sets=parse_sets(registry, sets or ()),
        expression=expression,
        full=full,
        last_failed=last_failed,
        seed=parse_seed(seed),
        repeat=repeat,
        schedule=schedule.value if schedule else None,
        async_mode=async_mode.value if async_mode else None,
        junit=parse_report(junit) if junit is not None else None,
        runner=runner,
        sanitizer=sanitize.value if sanitize else None,
        export=parse_folder(export) if export is not None else None,
        project=cli.project,
    )
    if options.export and (runner or sanitize or options.junit):
        raise UsageError("--export runs nothing", hint="leave out --runner, --sanitize and --junit")
    plan = plan_suite(registry, options)
    progress = SuiteProgress(stderr_console(cli), quiet=cli.verbosity < 0)
    if options.export:
        from sparkctl.render.export import export_json, show_export
        from sparkctl.workflows.export import export_suite

        exported = export_suite(registry, plan, options, options.export, watcher=progress)
        if json:
            print_json(export_json(exported))
        else:
            show_export(stdout_console(cli), exported)
        return
    if options.junit:
        make_folder_of(options.junit)
    console = stderr_console(cli)
    report = run_suite(
        registry,
        plan,
        options,
        watcher=progress,
        progress=ConsoleProgress(console, quiet=cli.verbosity < 0),
    )
    if json:
        print_json(report_json(report))
    else:
        show_report(stdout_console(cli), report, by_variant=cli.verbosity > 0)
    if not report.passed:
        raise typer.Exit(1)


def parse_groups(values: list[str] | None) -> tuple[int, ...]:
    """`--group 4,8` as numbers."""
    words = split_commas(values)
    if values and not words:
        raise UsageError("--group is empty", hint=GROUP_HINT)
    for word in words:
        if not word.isdecimal() or len(word) > 9 or int(word) < 1:
            raise UsageError(f"--group {word}: not a number of heads", hint=GROUP_HINT)
    return tuple(dict.fromkeys(int(word) for word in words))


def parse_seed(seed: int) -> int:
    if not 0 <= seed < SEED_LIMIT:
        raise UsageError(f"--seed {seed}: out of range", hint=f"0 to {SEED_LIMIT - 1}")
    return seed


def parse_report(text: str) -> Path:
    from pathlib import Path

    if not text.strip():
        raise UsageError("--junit names no file", hint="write it as --junit report.xml")
    if Path(text).is_dir():
        raise UsageError(f"--junit {text}: a folder", hint="name the file in it")
    return Path(text)


def parse_folder(text: str) -> Path:
    from pathlib import Path

    if not text.strip():
        raise UsageError("--export names no folder", hint="write it as --export cases/")
    if Path(text).exists() and not Path(text).is_dir():
        raise UsageError(f"--export {text}: not a folder", hint="name a folder, or one to be made")
    return Path(text)


def make_folder_of(report: Path) -> None:
    """Before the cases run: a report that cannot be written must not cost a run."""
    try:
        report.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--junit {report}: no folder {report.parent}: {error.strerror}") from error
    if not os.access(report.parent, os.W_OK):
        raise UsageError(f"--junit {report}: {report.parent} cannot be written")
