"""`sparkctl clean`: removes what was built."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from sparkctl.cli.options import Json, cli_context, load_project, project_folder
from sparkctl.errors import UsageError, WorkFailed

HELP = """Remove what builds of this project made: libraries, arms, exported revisions.

The compile cache stays, so that the next build is quick (sparkctl cache clear
empties it). So do saved reports and verdicts of tests, and every file that no
build made. A build that runs there is not disturbed.

\b
Examples:
  sparkctl clean --dry-run      what would go, and what stays
  sparkctl clean
  sparkctl clean --vanished     only what flags.yaml no longer has
  sparkctl clean --results      saved reports and verdicts too
"""


def register(app: typer.Typer) -> None:
    app.command("clean", help=HELP)(clean)


def clean(
    ctx: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say it, remove nothing.")] = False,
    vanished: Annotated[
        bool, typer.Option("--vanished", help="Only variants and profiles that flags.yaml no longer has.")
    ] = False,
    results: Annotated[bool, typer.Option("--results", help="Saved reports and verdicts of tests too.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Also where another tree was built last.")] = False,
    json: Json = False,
) -> None:
    from sparkctl.render.clean import clean_json, show_clean
    from sparkctl.render.console import print_json, stdout_console
    from sparkctl.workflows.clean import clean_outputs, clean_vanished

    if vanished and results:
        raise UsageError("--vanished and --results", hint="results are of no variant: one after the other")
    cli = cli_context(ctx)
    if vanished:
        report = clean_vanished(load_project(cli), os.environ, sure=yes, dry_run=dry_run)
    else:
        report = clean_outputs(project_folder(cli), os.environ, results=results, sure=yes, dry_run=dry_run)
    if json:
        print_json(clean_json(report))
    else:
        show_clean(stdout_console(cli), report, every=cli.verbosity > 0)
    if report.failed:
        count = "1 thing" if len(report.failed) == 1 else f"{len(report.failed)} things"
        raise WorkFailed(f"{count} could not be removed", hint="the lines above say why")
