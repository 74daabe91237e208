"""`sparkctl test`: run the kernels' cases against the fp64 reference."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

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
from sparkctl.errors import UsageError

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

\b
Exit codes: 0 all passed, 1 a case or a build failed, 2 nothing selected,
3 no device for --backend cuda.
"""


class BackendChoice(StrEnum):
    auto = "auto"
    emulator = "emulator"
    cuda = "cuda"


class ScheduleChoice(StrEnum):
    ascending = "ascending"
    descending = "descending"
    random = "random"


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
    seed: Annotated[int, typer.Option("--seed", metavar="S", help="Other random inputs; random orders too.")] = 0,
    repeat: Annotated[
        int, typer.Option("--repeat", metavar="N", min=1, help="Run each case N times; the bits must stay the same.")
    ] = 1,
    junit: Annotated[
        str | None, typer.Option("--junit", metavar="FILE", help="Write a JUnit report, one item a variant.")
    ] = None,
    json: Json = False,
) -> None:
    from pathlib import Path

    from sparkctl.arch import parse_arch
    from sparkctl.registry import parse_sets
    from sparkctl.render.build_progress import ConsoleProgress
    from sparkctl.render.console import print_json, stderr_console, stdout_console
    from sparkctl.render.suite_progress import SuiteProgress
    from sparkctl.render.test import report_json, show_report
    from sparkctl.workflows.test import SuiteOptions, plan_suite, run_suite

    cli = cli_context(ctx)
    registry = load_project(cli)
    options = SuiteOptions(
        patterns=tuple(kernels or ()),
        where=parse_where(where, head_dim, dtype),
        groups=parse_groups(group),
        backend=backend.value,
        arch=parse_arch(arch) if arch else None,
        profile=profile,
        sets=parse_sets(registry, sets or ()),
        expression=expression,
        full=full,
        last_failed=last_failed,
        seed=seed,
        repeat=repeat,
        schedule=schedule.value if schedule else None,
        async_mode=async_mode.value if async_mode else None,
        junit=Path(junit) if junit else None,
        project=cli.project,
    )
    plan = plan_suite(registry, options)
    console = stderr_console(cli)
    report = run_suite(
        registry,
        plan,
        options,
        watcher=SuiteProgress(console, quiet=cli.verbosity < 0),
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
    for word in words:
        if not word.isdigit() or int(word) < 1:
            raise UsageError(f"--group {word}: not a number of heads", hint="write it as --group 4 or --group 4,8")
    return tuple(int(word) for word in words)
