"""`sparkctl regs`: registers, spills, shared memory and occupancy of every variant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sparkctl.cli.options import (
    Archs,
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
)
from sparkctl.cli.regs_history import Form, RegsHistory
from sparkctl.errors import UsageError

if TYPE_CHECKING:
    from sparkctl.cli.options import CliContext
    from sparkctl.workflows.regs_model import RegsReport

HELP = """Registers, spills, stack, shared memory, barriers and occupancy of every variant.

Reads the compiler's own log of each build, and builds only what is missing or out of date. Needs no GPU.

\b
Examples:
  sparkctl regs                                        every kernel
  sparkctl regs attn_decode_split_kv_mma --head-dim 128
  sparkctl regs 'attn_decode_*' --arch sm_80,sm_90a    two archs side by side
  sparkctl regs attn_combine -v                        limits, the next step
  sparkctl regs --set min_blocks=2 --markdown          for a pull request
  sparkctl regs attn_combine --vs HEAD~1               what a change did
  sparkctl regs --check --arch sm_89,sm_90             against what is pinned
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("regs", help=HELP)(regs)


def regs(
    context: typer.Context,
    kernels: Kernels = None,
    arch: Archs = None,
    profile: Profile = "release",
    sets: Sets = None,
    where: Where = None,
    head_dim: HeadDim = None,
    dtype: Dtype = None,
    json: Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="One line per variant and arch, for programs.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="A table for a pull request.")] = False,
    vs: Annotated[
        str | None,
        typer.Option("--vs", metavar="REV", help="What changed since a git revision, a saved report, or 'pinned'."),
    ] = None,
    save: Annotated[str | None, typer.Option("--save", metavar="NAME", help="Keep this report for --vs NAME.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Exit 1 where anything differs from what is pinned, better or worse.")
    ] = False,
    update: Annotated[bool, typer.Option("--update", help="Pin this report in benchmarks/regs.")] = False,
) -> None:
    """Build what is missing, read, show."""
    import os

    from sparkctl.build import choose_archs
    from sparkctl.registry import parse_sets
    from sparkctl.render.build_progress import ConsoleProgress
    from sparkctl.render.console import stderr_console
    from sparkctl.toolchain import find_toolchain
    from sparkctl.workflows.regs import report_regs
    from sparkctl.workflows.regs_vs import Selected, check_name

    if (vs is not None) + check + update > 1:
        raise UsageError("--vs, --check and --update exclude each other", hint="choose one")
    if csv and (vs is not None or check):
        raise UsageError("--csv is of a report, not of a comparison", hint="--json or --markdown")
    if json + csv + markdown > 1:
        raise UsageError("--json, --csv and --markdown exclude each other", hint="choose one")
    cli = cli_context(context)
    registry = load_project(cli)
    if save is not None:
        check_name(registry, save)
    toolchain = find_toolchain(environ=os.environ)
    selected = Selected(
        patterns=tuple(kernels or ()),
        archs=choose_archs(arch, toolchain),
        where=parse_where(where, head_dim, dtype),
        profile=profile,
        sets=parse_sets(registry, sets or ()),
    )
    history = RegsHistory(cli, registry, selected, toolchain)
    report = report_regs(
        registry,
        selected.patterns,
        archs=selected.archs,
        where=selected.where,
        profile=selected.profile,
        sets=selected.sets,
        toolchain=toolchain,
        environ=os.environ,
        progress=ConsoleProgress(stderr_console(cli), quiet=cli.verbosity < 0),
    )
    form: Form = "json" if json else "csv" if csv else "markdown" if markdown else "table"
    if save is not None:
        history.save(report, save)
    if vs is not None:
        history.compare(report, vs, form)
    elif check:
        history.check(report, form)
    elif update:
        history.update(report)
    else:
        _show(cli, report, form=form)


def _show(cli: CliContext, report: RegsReport, *, form: Form) -> None:
    from sparkctl.render.console import print_json, stdout_console
    from sparkctl.render.regs import render_regs
    from sparkctl.render.regs_export import regs_csv, regs_json, regs_markdown

    if form == "json":
        print_json(regs_json(report))
    elif form == "csv":
        print(regs_csv(report), end="")
    elif form == "markdown":
        print(regs_markdown(report), end="")
    else:
        console = stdout_console(cli)
        console.print(render_regs(report, width=console.width, verbose=cli.verbosity > 0))
