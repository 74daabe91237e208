"""What `sparkctl sass` and `sparkctl ptx` have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from sparkctl.cli.options import load_project, parse_where
from sparkctl.errors import UsageError

if TYPE_CHECKING:
    from sparkctl.cli.options import CliContext
    from sparkctl.workflows.code import CodeOptions, CodeReport, Form
    from sparkctl.workflows.code_compare import CodeChanges

Listing = Annotated[bool, typer.Option("--listing", help="The code of one variant, an instruction a line.")]
ByLine = Annotated[
    bool, typer.Option("--by-line", help="The instructions of each source line; with --profile lineinfo.")
]
Vs = Annotated[
    str | None, typer.Option("--vs", metavar="REV", help="What changed since a git revision; --listing: a diff.")
]
_Words = Sequence[str] | None


def show_code(
    cli: CliContext,
    form: Form,
    kernels: Sequence[str],
    *,
    arch: str | None,
    profile: str,
    sets: Sequence[str],
    where: tuple[_Words, _Words, _Words],
    listing: bool,
    by_line: bool,
    vs: str | None,
    json: bool,
) -> None:
    """Build what is missing, read, show."""
    import os

    from sparkctl.build import choose_archs
    from sparkctl.registry import parse_sets
    from sparkctl.render.build_progress import ConsoleProgress
    from sparkctl.render.console import stderr_console
    from sparkctl.toolchain import find_toolchain
    from sparkctl.workflows.code import CodeOptions, report_code
    from sparkctl.workflows.code_vs import compare_code

    if listing and by_line:
        raise UsageError("--listing and --by-line exclude each other", hint="choose one")
    if by_line and vs is not None:
        raise UsageError("--by-line and --vs exclude each other", hint="--listing --vs shows the code that changed")
    registry = load_project(cli)
    toolchain = find_toolchain(environ=os.environ)
    options = CodeOptions(
        form=form,
        patterns=tuple(kernels),
        archs=choose_archs(arch, toolchain, registry=registry),
        where=parse_where(*where),
        profile=profile,
        sets=parse_sets(registry, sets),
        one="--listing" if listing else "--by-line" if by_line else None,
    )
    progress = ConsoleProgress(stderr_console(cli), quiet=cli.verbosity < 0)
    if vs is not None:
        _show_changes(
            cli, compare_code(registry, options, vs, toolchain=toolchain, progress=progress), options, json=json
        )
        return
    _show(cli, report_code(registry, options, toolchain=toolchain, progress=progress), options.one, json=json)


def _show(cli: CliContext, report: CodeReport, one: str | None, *, json: bool) -> None:
    from sparkctl.render.code import listing_lines, render_lines, render_mix
    from sparkctl.render.code_export import code_json
    from sparkctl.render.console import print_json, stdout_console

    if json:
        print_json(code_json(report, listing=one == "--listing", by_line=one == "--by-line"))
        return
    console = stdout_console(cli)
    for row in report.rows if one else ():
        if one == "--by-line":
            console.print(render_lines(row, report))
        else:
            for line in listing_lines(row, report.sources):
                console.print(line, soft_wrap=True)
    if one is None:
        console.print(render_mix(report, width=console.width, verbose=cli.verbosity > 0))


def _show_changes(cli: CliContext, changes: CodeChanges, options: CodeOptions, *, json: bool) -> None:
    from sparkctl.render.code_vs import changes_json, diff_lines, render_changes
    from sparkctl.render.console import print_json, stdout_console

    listing = options.one == "--listing"
    if json:
        print_json(changes_json(changes, listing=listing))
        return
    console = stdout_console(cli)
    if listing:
        for line in diff_lines(changes):
            console.print(line, soft_wrap=True)
    else:
        console.print(render_changes(changes, width=console.width, verbose=cli.verbosity > 0))
