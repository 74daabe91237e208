"""`sparkctl regs`: registers, spills, shared memory and occupancy of every variant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sparkctl.cli.options import (
    Archs,
    Dtype,
    HeadDim,
    Json,
    KernelsOrFiles,
    Profile,
    Sets,
    Where,
    cli_context,
    load_project,
    parse_where,
)
from sparkctl.cli.regs_files import file_options, files_among, refuse_for_files, what_if
from sparkctl.cli.regs_history import Form, RegsHistory
from sparkctl.errors import UsageError

if TYPE_CHECKING:
    from sparkctl.cli.options import CliContext
    from sparkctl.workflows.regs_caps import Sweep
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
  sparkctl regs attn_combine --max-regs 32,40          by real compiles
  sparkctl regs my.cu --block 256                      any source, log, object
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("regs", help=HELP)(regs)


def regs(
    context: typer.Context,
    kernels: KernelsOrFiles = None,
    arch: Archs = None,
    profile: Profile = "release",
    sets: Sets = None,
    where: Where = None,
    head_dim: HeadDim = None,
    dtype: Dtype = None,
    json: Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="One line per variant and arch, for programs.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="A table for a pull request.")] = False,
    block: Annotated[
        int | None, typer.Option("--block", metavar="THREADS", help="What if a block had so many; a file's block.")
    ] = None,
    smem: Annotated[
        int | None, typer.Option("--smem", metavar="BYTES", help="What if a launch asked for so much dynamic smem.")
    ] = None,
    grid: Annotated[int | None, typer.Option("--grid", metavar="BLOCKS", help="How many waves a launch makes.")] = None,
    gpu: Annotated[str | None, typer.Option("--gpu", metavar="NAME", help="Where the grid runs: H200.")] = None,
    max_regs: Annotated[
        str | None,
        typer.Option("--max-regs", metavar="N,…", help="Compile under these register caps, beside the one without."),
    ] = None,
    nvcc_option: Annotated[
        list[str] | None, typer.Option("--nvcc-option", metavar="OPTION", help="For FILE.cu; repeatable.")
    ] = None,
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
    from dataclasses import replace

    from sparkctl.build import choose_archs
    from sparkctl.registry import parse_sets
    from sparkctl.render.build_progress import ConsoleProgress
    from sparkctl.render.console import stderr_console
    from sparkctl.toolchain import find_toolchain
    from sparkctl.workflows.regs import report_regs
    from sparkctl.workflows.regs_caps import parse_caps, sweep_files, sweep_registry
    from sparkctl.workflows.regs_inputs import report_files
    from sparkctl.workflows.regs_vs import Selected, check_name

    files = files_among(kernels or ())
    _refuse_conflicts(
        forms={"--json": json, "--csv": csv, "--markdown": markdown},
        modes={"--vs": vs is not None, "--check": check, "--update": update, "--max-regs": max_regs is not None},
        launch={"--block": block, "--smem": smem, "--grid": grid},
        for_files=bool(files),
    )
    cli = cli_context(context)
    form: Form = "json" if json else "csv" if csv else "markdown" if markdown else "table"
    caps = parse_caps(max_regs) if max_regs is not None else ()
    launch = what_if(block, smem, grid, gpu)
    if files:
        refuse_for_files(
            {"--head-dim": head_dim, "--dtype": dtype, "--where": where, "--set": sets, "--vs": vs, "--save": save,
             "--check": check, "--update": update, "--profile": profile != "release"}
        )  # fmt: skip
        options = file_options(cli, arch, block, smem, nvcc_option)
        toolchain = find_toolchain(environ=os.environ)
        if caps:
            show_sweep_as(cli, sweep_files(files, options, caps, toolchain=toolchain), form)
        else:
            _show(cli, replace(report_files(files, options, toolchain=toolchain), grid=launch.grid), form=form)
        return
    if nvcc_option:
        raise UsageError("--nvcc-option is for FILE.cu", hint="--set extra_nvcc=OPTION for kernels of a project")
    registry = load_project(cli)
    if save is not None:
        check_name(registry, save)
    toolchain = find_toolchain(environ=os.environ)
    selected = Selected(
        patterns=tuple(kernels or ()),
        archs=choose_archs(arch, toolchain, registry=registry),
        where=parse_where(where, head_dim, dtype),
        profile=profile,
        sets=parse_sets(registry, sets or ()),
    )
    progress = ConsoleProgress(stderr_console(cli), quiet=cli.verbosity < 0)
    if caps:
        show_sweep_as(cli, sweep_registry(registry, selected, caps, toolchain=toolchain, progress=progress), form)
        return
    report = report_regs(
        registry,
        selected.patterns,
        archs=selected.archs,
        where=selected.where,
        profile=selected.profile,
        sets=selected.sets,
        toolchain=toolchain,
        environ=os.environ,
        progress=progress,
    )
    history = RegsHistory(cli, registry, selected, toolchain)
    if save is not None:
        history.save(report, save)
    if vs is not None:
        history.compare(report, vs, form)
    elif check:
        history.check(report, form)
    elif update:
        history.update(report)
    else:
        _show(cli, launch.apply(report), form=form)


def _refuse_conflicts(
    *, forms: dict[str, bool], modes: dict[str, bool], launch: dict[str, int | None], for_files: bool
) -> None:
    """UsageError for options that exclude each other."""
    for group in (forms, modes):
        if sum(group.values()) > 1:
            *first, last = group
            raise UsageError(f"{', '.join(first)} and {last} exclude each other", hint="choose one")
    mode = next((name for name, given in modes.items() if given), None)
    if forms["--csv"] and mode in ("--vs", "--check"):
        raise UsageError("--csv is of a report, not of a comparison", hint="--json or --markdown")
    other = next((name for name in ("--grid", "--block", "--smem") if launch[name] is not None), None)
    of_a_file = mode == "--max-regs" and for_files and launch["--grid"] is None  # a file has no launch of its own
    if other and mode and not of_a_file:
        raise UsageError(f"{other} is a what-if, {mode} is of what is launched", hint=f"leave out {other}")


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


def show_sweep_as(cli: CliContext, sweep: Sweep, form: Form) -> None:
    from sparkctl.render.console import print_json, stdout_console
    from sparkctl.render.regs_caps import show_sweep, sweep_csv, sweep_json, sweep_markdown

    if form == "json":
        print_json(sweep_json(sweep))
    elif form == "csv":
        print(sweep_csv(sweep), end="")
    elif form == "markdown":
        print(sweep_markdown(sweep), end="")
    else:
        show_sweep(stdout_console(cli), sweep)
