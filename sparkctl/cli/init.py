"""`sparkctl init`: a flags.yaml for a tree of `.cu` files."""

from __future__ import annotations

from typing import Annotated

import typer

from sparkctl.cli.options import Archs, Json, cli_context
from sparkctl.errors import UsageError

HELP = """Write a flags.yaml for a folder of .cu files, so that build, regs, sass and ptx work there.

Every source is compiled; kernels are what the compiler reports, threads per block what
__launch_bounds__ says. Folders of headers are looked for in the tree, and -rdc=true is added
where a source calls device code of another. A source that does not compile is reported and
left out; the rest goes on, and the exit code is 1.

\b
Examples:
  sparkctl init                              this folder
  sparkctl init kernels/ --arch sm_80,sm_90
  sparkctl init -I include -I ../cutlass/include
  sparkctl init --nvcc-option=-std=c++20 --block 256
  sparkctl init --force                      write it anew

\b
Exit codes: 0 written, 1 a source did not compile or link, 2 no .cu file or
there is a flags.yaml, 3 no nvcc.
"""
MOST_THREADS = 1024


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("init", help=HELP)(init)


def init(
    ctx: typer.Context,
    folder: Annotated[
        str, typer.Argument(metavar="DIR", help="The folder; this one if left out.", show_default=False)
    ] = ".",
    arch: Archs = None,
    include: Annotated[
        list[str] | None, typer.Option("-I", "--include", metavar="DIR", help="A folder of headers; repeatable.")
    ] = None,
    nvcc_option: Annotated[
        list[str] | None, typer.Option("--nvcc-option", metavar="OPTION", help="For every source; repeatable.")
    ] = None,
    rdc: Annotated[bool, typer.Option("--rdc", help="Compile with -rdc=true.")] = False,
    block: Annotated[
        int | None,
        typer.Option("--block", metavar="THREADS", help="Threads per block where no __launch_bounds__ says it."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the flags.yaml that is there.")] = False,
    json: Json = False,
) -> None:
    """Compile, write, show."""
    import os
    from pathlib import Path

    from sparkctl.build import choose_archs
    from sparkctl.render.build_progress import ConsoleProgress
    from sparkctl.render.console import print_json, stderr_console, stdout_console
    from sparkctl.render.init import init_json, render_init
    from sparkctl.toolchain import find_toolchain
    from sparkctl.workflows.init import init_tree
    from sparkctl.workflows.init_model import InitOptions

    cli = cli_context(ctx)
    if cli.project is not None:
        raise UsageError("init makes a project, and --project names one", hint="sparkctl init DIR")
    if block is not None and not 1 <= block <= MOST_THREADS:
        raise UsageError(f"--block {block}: not accepted", hint=f"1 to {MOST_THREADS}")
    toolchain = find_toolchain(environ=os.environ)
    options = InitOptions(
        root=Path(folder),
        archs=choose_archs(arch, toolchain) if arch is not None else None,
        include=tuple(Path(text) for text in include or ()),
        nvcc=(*(nvcc_option or ()), *(["-rdc=true"] if rdc else [])),
        block_threads=block,
        force=force,
    )
    progress = ConsoleProgress(stderr_console(cli), quiet=cli.verbosity < 0)
    report = init_tree(options, toolchain=toolchain, progress=progress)
    if json:
        print_json(init_json(report))
    else:
        stdout_console(cli).print(render_init(report))
    if not report.passed:
        raise typer.Exit(1)
