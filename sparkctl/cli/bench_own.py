"""`sparkctl bench` of kernels with cases in Python: which options they take, and how it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkctl.cli.options import cli_context, load_project, parse_where
from sparkctl.errors import MissingTool, UsageError, WorkFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    import typer

TAKEN = ("kernels", "variant", "where", "profile", "set_", "budget", "peers", "json", "no_plot")


def takes_own_bench(ctx: typer.Context, patterns: Sequence[str]) -> bool:
    """Whether the kernels are timed by their own cases. UsageError for options that then mean nothing."""
    from sparkctl.workflows.bench_own import own_kernels

    if any(_is_given(ctx, name) for name in ("suite", "estimate")):
        return False
    registry = load_project(cli_context(ctx))
    if not any(kernel.cases_file is not None for kernel in registry.kernels.values()):
        return False
    if not own_kernels(registry, patterns):
        return False
    given = [name for name in ctx.params if name not in TAKEN and _is_given(ctx, name)]
    if given:
        option = f"--{given[0].strip('_').replace('_', '-')}"
        raise UsageError(
            f"{option} is for attention kernels: these are timed by their bench_cases()",
            hint="--where, --variant, --budget, --profile, --set, --peers none and --json go with them",
        )
    return True


def bench_own(
    ctx: typer.Context,
    patterns: Sequence[str],
    where: list[str] | None,
    profile: str,
    sets: list[str] | None,
    budget: float,
    *,
    peers: bool,
    json: bool,
) -> None:
    """Measure and show. Exit code 1 where a row failed, 3 without a device or where it was lost."""
    from sparkctl.registry import parse_sets
    from sparkctl.render.bench_own import own_bench_json, show_own_bench
    from sparkctl.render.bench_progress import CaseProgress
    from sparkctl.render.build_progress import ConsoleProgress
    from sparkctl.render.console import print_json, stderr_console, stdout_console
    from sparkctl.toolchain import find_devices
    from sparkctl.workflows.bench_own import OwnRequest, run_own_bench

    cli = cli_context(ctx)
    registry = load_project(cli)
    request = OwnRequest(tuple(patterns), parse_where(where), profile, parse_sets(registry, sets or ()), budget, peers)
    devices = find_devices()
    if not devices:
        raise MissingTool(
            "bench needs a CUDA device and this machine shows none",
            hint="sparkctl test and sparkctl regs need none",
        )
    stderr, quiet = stderr_console(cli), cli.verbosity < 0
    progress = CaseProgress(stderr, quiet=quiet)
    try:
        run = run_own_bench(
            registry,
            request,
            arch=devices[0].arch,
            at_case=progress.at,
            build_progress=ConsoleProgress(stderr, quiet=quiet),
        )
    finally:
        progress.stop()
    if json:
        print_json(own_bench_json(run))
    else:
        show_own_bench(stdout_console(cli), run)
    if run.interrupted:
        raise KeyboardInterrupt
    if run.lost is not None:
        raise MissingTool(run.lost, hint=f"{len(run.rows)} of {run.planned} rows were measured before")
    if run.failures:
        raise WorkFailed(f"{len(run.failures)} of {run.planned} rows failed")


def _is_given(ctx: typer.Context, parameter: str) -> bool:
    source = ctx.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"
