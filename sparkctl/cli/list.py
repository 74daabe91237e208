"""`sparkctl list`: what kernels there are and what is built."""

from __future__ import annotations

from typing import Annotated

import typer

from sparkctl.cli.options import Json, Kernels, cli_context, load_project

HELP = """Kernels: what each does, its axes, what it accepts, how many test cases it has,
and where it is built. With a KERNEL, or with -v, the variants too.

Cases come in three sets: quick is what `sparkctl test` runs, full and device are
what `sparkctl test --full` runs on the emulator and on a GPU, the quick ones
among them. --cases lists their ids, whose words `sparkctl test -k` selects by.

\b
Examples:
  sparkctl list
  sparkctl list attn_decode_split_kv_mma
  sparkctl list attn_combine --cases
  sparkctl list 'attn_decode_*' --json
"""


Cases = Annotated[bool, typer.Option("--cases", help="The test cases' ids, each with its set.")]


def register(app: typer.Typer) -> None:
    app.command("list", help=HELP)(list_kernels)


def list_kernels(ctx: typer.Context, kernels: Kernels = None, cases: Cases = False, json: Json = False) -> None:
    from sparkctl.render.console import print_json, stderr_console, stdout_console
    from sparkctl.render.listing import inventory_json, render_inventory
    from sparkctl.workflows.inventory import take_inventory

    cli = cli_context(ctx)
    inventory = take_inventory(load_project(cli), kernels or ())
    for message in inventory.unreadable:
        stderr_console(cli).print(f"warning: {message}")
    if json:
        print_json(inventory_json(inventory, with_cases=cases))
    else:
        variants = cli.verbosity > 0 or (bool(kernels) and not cases)
        stdout_console(cli).print(render_inventory(inventory, with_variants=variants, with_cases=cases))
