"""`sparkctl new`: a new kernel that builds and passes at once."""

from __future__ import annotations

from typing import Annotated

import typer

from sparkctl.cli.options import Json, cli_context

HELP = """Write a new kernel: source with launcher, reference and cases, and its entry in flags.yaml.

It builds, reports and passes as it is: sparkctl test NAME. Without --family it is a kernel of your own,
NAME.cu with NAME_cases.py, in the project of this folder; where there is none, flags.yaml is written too.
With --family it begins as a copy of that family's shortest kernel, and takes its cases.

\b
Examples:
  sparkctl new softmax                       softmax.cu, softmax_cases.py
  sparkctl new softmax --project ~/kernels
  sparkctl new attn_decode_split_kv_wgmma --family decode

\b
Exit codes: 0 written, 1 it could not be written, 2 the name is taken or none.
Where it does not end with 0, nothing is written.
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("new", help=HELP)(new)


def new(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The kernel's name.", show_default=False)],
    family: Annotated[
        str | None, typer.Option("--family", metavar="FAMILY", help="Start from a kernel of this family.")
    ] = None,
    json: Json = False,
) -> None:
    """Write, show."""
    from pathlib import Path

    from sparkctl.render.console import print_json, stdout_console
    from sparkctl.render.new import new_json, render_new
    from sparkctl.workflows.new import NewOptions, new_kernel

    cli = cli_context(ctx)
    report = new_kernel(NewOptions(name, family, cli.project, Path.cwd()))
    if json:
        print_json(new_json(report))
    else:
        stdout_console(cli).print(render_new(report))
