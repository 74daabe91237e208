"""What `sparkctl bench` does with a run: shown, drawn, held against another. Saved runs too, with no device."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sparkctl.cli.options import cli_context, project_folder
from sparkctl.errors import UsageError

if TYPE_CHECKING:
    from sparkctl.bench.against import Baseline
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
    plot: Path | None = None  # a picture
    baselines: tuple[tuple[Path, Run], ...] = ()  # what --baseline may mean, one for each GPU that has the name


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


def prepare(ctx: typer.Context, output: Output, plot: str | None, baseline: str | None, *, ab: bool) -> Output:
    """Before anything is measured: refuses a picture that cannot be written and a baseline that cannot be read."""
    if plot is not None:
        from sparkctl.bench.plots import check_plot_path

        check_plot_path(Path(plot))
        output = replace(output, plot=Path(plot))
    if baseline is None:
        return output
    from sparkctl.bench.saved import find_results, load_run

    if ab and output.csv:
        raise UsageError("--csv with --ab has no place for --baseline", hint="--json or --markdown has")
    paths = find_results(baseline, project_folder(cli_context(ctx)))
    return replace(output, baselines=tuple((path, load_run(path)) for path in paths))


def show_saved(ctx: typer.Context, name: str, output: Output, plot: str | None, baseline: str | None) -> None:
    """`--from`: a saved run as if it had just been taken."""
    from sparkctl.bench.saved import load_run, one_result
    from sparkctl.render.console import stderr_console

    refuse_others(ctx, "--from", SHOWING | {"from_", "baseline"}, "it shows a saved run")
    cli = cli_context(ctx)
    path = Path(name) if name.endswith(".json") else one_result(name, project_folder(cli))
    run = load_run(path)
    if not run.rows:
        raise UsageError(f"{path}: a run without rows", hint="it was interrupted, or every case failed")
    output = prepare(ctx, output, plot, baseline, ab=run.ab is not None)
    if cli.verbosity >= 0:
        stderr_console(cli).print(f"{path}, measured {run.started}", soft_wrap=True)
    show_run(ctx, run, output)


def show_run(ctx: typer.Context, run: Run, output: Output) -> None:
    """The run in the form that was asked for, and its picture."""
    from sparkctl.render.bench_ending import ending_notes
    from sparkctl.render.console import stderr_console

    cli = cli_context(ctx)
    baseline = choose_baseline(run, output.baselines) if run.rows else None
    if output.json:
        _print_record(run, baseline)
    elif not run.rows:
        if run.interrupted:
            stderr_console(cli).print("\n".join(ending_notes(run)))
    elif output.csv or output.markdown:
        _print_text(run, baseline, csv=output.csv)
    else:
        _print_screen(ctx, run, baseline, bars=output.bars)
    if output.plot is not None and run.rows:
        from sparkctl.bench.plots import plot_run

        plot_run(run, output.plot)
        _say_drawn(ctx, output.plot)


def _print_record(run: Run, baseline: Baseline | None) -> None:
    from sparkctl.bench.record import SCHEMA_VERSION, run_record
    from sparkctl.render.bench_against import baseline_record
    from sparkctl.render.console import print_json

    more = {} if baseline is None else {"baseline": baseline_record(baseline)}
    print_json({"schema_version": SCHEMA_VERSION, **run_record(run), **more})


def _print_text(run: Run, baseline: Baseline | None, *, csv: bool) -> None:
    from sparkctl.render.bench import run_csv, run_markdown
    from sparkctl.render.bench_ab import comparisons_csv, comparisons_markdown
    from sparkctl.render.bench_against import CSV_BASELINE, baseline_markdown, csv_baseline_values

    if csv and run.ab is None:
        rows = [] if baseline is None else [CSV_BASELINE, *(csv_baseline_values(one) for one in baseline.rows)]
        print(run_csv(run, rows))
    elif csv:
        print(comparisons_csv(run))
    else:
        print(run_markdown(run) if run.ab is None else comparisons_markdown(run))
        if baseline is not None:
            print("\n".join(baseline_markdown(baseline)))


def _print_screen(ctx: typer.Context, run: Run, baseline: Baseline | None, *, bars: bool) -> None:
    from sparkctl.render.bench import print_run
    from sparkctl.render.bench_ab import print_comparisons
    from sparkctl.render.bench_against import print_baseline
    from sparkctl.render.bench_plot import print_plot
    from sparkctl.render.console import stdout_console

    console = stdout_console(cli_context(ctx))
    (print_run if run.ab is None else print_comparisons)(console, run)
    if bars:
        print_plot(console, run)
    if baseline is not None:
        print_baseline(console, baseline)


def choose_baseline(run: Run, baselines: Sequence[tuple[Path, Run]]) -> Baseline | None:
    """That of the run's own GPU, else the first, which is then told to be another GPU's."""
    from sparkctl.bench.against import hold_against

    if not baselines:
        return None
    own = [one for one in baselines if one[1].environment.gpu == run.environment.gpu]
    path, base = (own or baselines)[0]
    here = path.absolute().is_relative_to(Path.cwd())
    return hold_against(run, base, str(path.absolute().relative_to(Path.cwd()) if here else path))


def remember(ctx: typer.Context, run: Run) -> None:
    """The run goes into the history; what keeps it from that is a warning."""
    from sparkctl.bench.history import history_path, record_run
    from sparkctl.render.console import stderr_console

    problem = record_run(history_path(os.environ), run) if run.rows else None
    if problem is not None:
        stderr_console(cli_context(ctx)).print(f"warning: not recorded in the history: {problem}", soft_wrap=True)


def show_history(ctx: typer.Context, kernel: str, output: Output, plot: str | None) -> None:
    """`--history`: what was recorded of a kernel."""
    from sparkctl.bench.history import history_path, read_history
    from sparkctl.render.bench_history import history_csv, history_record, print_history
    from sparkctl.render.console import print_json, stdout_console

    refuse_others(ctx, "--history", SHOWING - {"markdown"} | {"history"}, "it shows what was recorded")
    output = prepare(ctx, output, plot, None, ab=False)
    path = history_path(os.environ)
    entries = read_history(path, kernel)
    cli = cli_context(ctx)
    if output.json:
        print_json(history_record(entries, kernel, str(path)))
    elif output.csv:
        print(history_csv(entries))
    else:
        print_history(stdout_console(cli), entries, everything=cli.verbosity > 0)
    if output.plot is not None:
        from sparkctl.bench.plots import plot_history

        plot_history(entries, f"{kernel}, {entries[0].started[:10]} to {entries[-1].started[:10]}", output.plot)
        _say_drawn(ctx, output.plot)


def _say_drawn(ctx: typer.Context, path: Path) -> None:
    from sparkctl.render.console import stderr_console

    if cli_context(ctx).verbosity >= 0:
        stderr_console(cli_context(ctx)).print(f"drawn in {path}", soft_wrap=True)
