"""`sparkctl doctor`: what this machine has and lacks."""

from __future__ import annotations

import os

import typer

from sparkctl.cli.options import Json, cli_context
from sparkctl.errors import MissingTool

HELP = """Look at everything that sparkctl needs of this machine, and try it.

Python and packages, compilers, ninja, ccache and the cache, disassemblers, the
project, its build folder and lock, room, memory, driver and GPUs. Each line says
what was found and where; a fault says what helps. Exit 3 if build, regs or test
cannot run. Home folders, users and passwords are left out, so that the report
can be shown to others.

\b
Examples:
  sparkctl doctor
  sparkctl doctor --json
  CUDA_HOME=/usr/local/cuda-12.4 sparkctl doctor
"""


def register(app: typer.Typer) -> None:
    app.command("doctor", help=HELP)(doctor)


def doctor(ctx: typer.Context, json: Json = False) -> None:
    from sparkctl.render.console import print_json, stderr_console, stdout_console
    from sparkctl.render.doctor import diagnosis_json, show_diagnosis
    from sparkctl.workflows.doctor import diagnose

    cli = cli_context(ctx)
    console = stderr_console(cli)
    if console.is_terminal and cli.verbosity >= 0:
        with console.status("trying compilers and packages"):
            diagnosis = diagnose(cli.project, os.environ)
    else:
        diagnosis = diagnose(cli.project, os.environ)
    if json:
        print_json(diagnosis_json(diagnosis))
    else:
        show_diagnosis(stdout_console(cli), diagnosis)
    if diagnosis.missing:
        first = next(finding for finding in diagnosis.findings if finding.state == "error")
        raise MissingTool(f"{first.name}: {first.what}", hint=first.fix)
