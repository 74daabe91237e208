"""What `sparkctl bench` does with a run: shown, drawn, held against another. Saved runs too, with no device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from sparkctl.cli.options import cli_context, project_folder
from sparkctl.errors import UsageError

if TYPE_CHECKING:
    from sparkctl.bench.results import Run

# Parameters that say how results are shown; the others say what is measured.
SHOWING = frozenset({"json", "csv", "markdown", "plot", "no_plot"})


@dataclass(frozen=True, slots=True)
class Output:
    """How results are shown. Of json, csv and markdown one at most."""

    json: bool = False
    csv: bool = False
    markdown: bool = False
    bars: bool = True  # beneath the table, on a terminal


def refuse_others(ctx: typer.Context, mode: str, allowed: frozenset[str], why: str) -> None:
    """UsageError where the command line has an option that `mode` would leave aside."""
    given = [
        "KERNEL" if parameter.param_type_name == "argument" else parameter.opts[0]
        for parameter in ctx.command.params
        if parameter.name and parameter.name not in allowed and _is_given(ctx, parameter.name)
    ]
    if given:
        raise UsageError(f"{mode} takes no {', no '.join(given)}: {why}", hint=f"leave out {mode} to measure")


def _is_given(ctx: typer.Context, parameter: str) -> bool:
    source = ctx.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"


def show_saved(ctx: typer.Context, name: str, output: Output) -> None:
    """`--from`: a saved run as if it had just been taken."""
    from pathlib import Path

    from sparkctl.bench.saved import load_run, one_result
    from sparkctl.render.console import stderr_console

    refuse_others(ctx, "--from", SHOWING | {"from_"}, "it shows a saved run")
    cli = cli_context(ctx)
    path = Path(name) if name.endswith(".json") else one_result(name, project_folder(cli))
    run = load_run(path)
    if not run.rows:
        raise UsageError(f"{path}: a run without rows", hint="it was interrupted, or every case failed")
    if cli.verbosity >= 0:
        stderr_console(cli).print(f"{path}, measured {run.started}", soft_wrap=True)
    show_run(ctx, run, output)


def show_run(ctx: typer.Context, run: Run, output: Output) -> None:
    """The run in the form that was asked for."""
    from sparkctl.bench.record import SCHEMA_VERSION, run_record
    from sparkctl.render.bench import print_run, run_csv, run_markdown
    from sparkctl.render.bench_ab import comparisons_csv, comparisons_markdown, print_comparisons
    from sparkctl.render.bench_ending import ending_notes
    from sparkctl.render.bench_plot import print_plot
    from sparkctl.render.console import print_json, stderr_console, stdout_console

    if output.json:
        print_json({"schema_version": SCHEMA_VERSION, **run_record(run)})
    elif not run.rows:
        if run.interrupted:
            stderr_console(cli_context(ctx)).print("\n".join(ending_notes(run)))
    elif output.csv:
        print(run_csv(run) if run.ab is None else comparisons_csv(run))
    elif output.markdown:
        print(run_markdown(run) if run.ab is None else comparisons_markdown(run))
    else:
        console = stdout_console(cli_context(ctx))
        (print_run if run.ab is None else print_comparisons)(console, run)
        if output.bars:
            print_plot(console, run)
