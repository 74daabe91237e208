"""`sparkctl profile`: Nsight Compute on one case of one variant."""

from __future__ import annotations

from typing import Annotated

import typer

from sparkctl.cli.options import (
    Dtype,
    HeadDim,
    Json,
    Kernels,
    OneArch,
    Profile,
    Sets,
    Where,
    cli_context,
    load_project,
    parse_where,
    split_commas,
)
from sparkctl.errors import UsageError

HELP = """Nsight Compute on one case of one variant, on a GPU: the few metrics that matter.

The case runs in the standalone runner, so that only the kernel's launches are
counted. What is missing is built first. ncu is SPARKCTL_NCU, else the one on
PATH, in CUDA_HOME or under /opt/nvidia/nsight-compute.

\b
Examples:
  sparkctl profile attn_decode_split_kv_mma.bf16.d128
  sparkctl profile attn_decode_split_kv_mma.bf16.d128 -k kv131072
  sparkctl profile attn_combine.bf16.d128 --metrics smsp__inst_executed.sum
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("profile", help=HELP)(profile)


def profile(
    context: typer.Context,
    kernels: Kernels = None,
    where: Where = None,
    head_dim: HeadDim = None,
    dtype: Dtype = None,
    expression: Annotated[
        str | None, typer.Option("-k", metavar="EXPR", help="The case by words of its id; sparkctl list --cases.")
    ] = None,
    arch: OneArch = None,
    build_profile: Profile = "release",
    sets: Sets = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option("--metrics", metavar="NAME", help="ncu's metrics by name, instead; commas list several."),
    ] = None,
    json: Json = False,
) -> None:
    """Plan, build, count, show."""
    from sparkctl.arch import parse_arch
    from sparkctl.registry import parse_sets
    from sparkctl.render.build_progress import ConsoleProgress
    from sparkctl.render.console import print_json, stderr_console, stdout_console
    from sparkctl.render.profile import profile_json, render_profile
    from sparkctl.workflows.profile import plan_profile, run_profile
    from sparkctl.workflows.suite import SuiteOptions

    cli = cli_context(context)
    names = tuple(split_commas(metrics))
    if metrics and not names:
        raise UsageError("--metrics names none", hint="ncu --query-metrics lists what it knows")
    registry = load_project(cli)
    options = SuiteOptions(
        patterns=tuple(kernels or ()),
        where=parse_where(where, head_dim, dtype),
        arch=parse_arch(arch) if arch is not None else None,
        profile=build_profile,
        sets=parse_sets(registry, sets or ()),
        expression=expression,
        project=cli.project,
    )
    plan = plan_profile(registry, options, names)
    report = run_profile(registry, plan, progress=ConsoleProgress(stderr_console(cli), quiet=cli.verbosity < 0))
    if json:
        print_json(profile_json(report))
    else:
        stdout_console(cli).print(render_profile(report))
