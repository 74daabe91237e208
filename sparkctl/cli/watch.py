"""`sparkctl watch`: rebuild on save, registers before and after, and a few tests."""

from __future__ import annotations

from typing import Annotated

import typer

from sparkctl.cli.options import (
    Archs,
    Dtype,
    HeadDim,
    Json,
    Profile,
    Sets,
    Where,
    cli_context,
    complete_kernels,
    load_project,
    parse_where,
)

HELP = """Rebuild whenever a source of the variants is saved, and show what the save did.

Registers, spills, shared memory and occupancy before and after, and a few of the quick cases on the emulator; or the
compiler's errors, beside the numbers of the last build that went well. Needs no GPU. Ctrl-C ends it.

\b
Examples:
  sparkctl watch attn_combine --head-dim 128 --dtype bf16
  sparkctl watch attn_decode_split_kv_mma.bf16.d128 --arch sm_89,sm_90
  sparkctl watch attn_combine --cases 0                registers only
  sparkctl watch attn_combine --set min_blocks=2
  sparkctl watch attn_combine --once                   one round, and stop
  sparkctl watch attn_combine --json                   one object a rebuild

\b
Exit codes: 130 ended by Ctrl-C, 2 wrong usage or nothing selected,
3 no compiler; with --once 0 all is well, 1 a build or a case failed.
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("watch", help=HELP)(watch)


def watch(
    context: typer.Context,
    kernels: Annotated[
        list[str],
        typer.Argument(metavar="KERNEL", help="Kernel or variant names, or globs.", autocompletion=complete_kernels),
    ],
    arch: Archs = None,
    profile: Profile = "release",
    sets: Sets = None,
    where: Where = None,
    head_dim: HeadDim = None,
    dtype: Dtype = None,
    cases: Annotated[
        int, typer.Option("--cases", metavar="N", min=0, help="Of each variant, on the emulator; 0 tests nothing.")
    ] = 8,
    once: Annotated[bool, typer.Option("--once", help="One round, then stop.")] = False,
    json: Json = False,
) -> None:
    """Watch, show."""
    import os
    import sys

    from sparkctl.build import choose_archs
    from sparkctl.render.build_progress import ConsoleProgress
    from sparkctl.render.console import stderr_console, stdout_console
    from sparkctl.render.watch_display import BlockDisplay, live_screen
    from sparkctl.toolchain import find_toolchain
    from sparkctl.workflows.watch import watch_kernel
    from sparkctl.workflows.watch_model import WatchRequest

    cli = cli_context(context)
    registry = load_project(cli)
    request = WatchRequest(
        project=registry.root,
        patterns=tuple(kernels),
        archs=choose_archs(arch, find_toolchain(environ=os.environ), registry=registry),
        where=parse_where(where, head_dim, dtype),
        profile=profile,
        sets=tuple(sets or ()),
        cases=cases,
    )
    console = stdout_console(cli)
    if sys.stdout.isatty() and not console.is_dumb_terminal and not once and not json:
        with live_screen(cli, request) as screen:
            watch_kernel(request, screen)
    progress = ConsoleProgress(stderr_console(cli), quiet=cli.verbosity < 0)
    found = watch_kernel(request, BlockDisplay(console, request, progress, json=json), once=once)
    if not found.ok:
        raise typer.Exit(1)
