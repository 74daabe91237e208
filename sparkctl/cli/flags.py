"""`sparkctl flags`: the registry's flags, the values they end up with and why, and the checks on the file."""

from __future__ import annotations

import typer

from sparkctl.cli.options import Json, cli_context, load_project

HELP = """The registry: show flags, explain their values, check the file."""


def register(app: typer.Typer) -> None:
    group = typer.Typer(help=HELP, rich_markup_mode=None)
    group.callback()(lambda: None)
    group.command("list", help="Every flag.")(list_flags)
    app.add_typer(group, name="flags")


def list_flags(ctx: typer.Context, json: Json = False) -> None:
    registry = load_project(cli_context(ctx))
    print(*registry.flags, sep="\n")
