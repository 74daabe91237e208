"""`sparkctl cache`: the compile cache that all clones and worktrees share."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from sparkctl.cli.options import CliContext, Json, cli_context
from sparkctl.errors import UsageError, WorkFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HELP = """The compile cache: one for every clone and worktree of this user.

CCACHE_DIR names another folder, CCACHE_REMOTE_STORAGE a server or a
shared folder behind it (docs/cache.md).

\b
Examples:
  sparkctl cache                      hits, size, savings, longest compiles
  sparkctl cache stats attn_combine   the compiles of one kernel
  sparkctl cache prune --max-size 2G
  sparkctl cache verify --remove
"""

STATS_HELP = """Hits, size, what was saved, and time and memory of compiles; -v lists every one.

\b
Examples:
  sparkctl cache stats
  sparkctl cache stats 'attn_decode_*' -v
  sparkctl cache stats --json
"""

CLEAR_HELP = """Remove every entry and zero the counters. Times and peaks of compiles stay known.

\b
Examples:
  sparkctl cache clear
  CCACHE_DIR=/ci/ccache sparkctl cache clear --yes
"""

PRUNE_HELP = """Remove what was not used for long, or what was used longest ago until the rest fits.

Without options: what nothing used for 30 days, and what is over ccache's limit.

\b
Examples:
  sparkctl cache prune
  sparkctl cache prune --older-than 7d
  sparkctl cache prune --max-size 2G
"""

VERIFY_HELP = """Compare the checksum of every entry. Exit 1 if one is damaged.

A build meets damaged entries by compiling again, so this is for a disk in doubt.

\b
Examples:
  sparkctl cache verify
  sparkctl cache verify --remove
"""


def register(app: typer.Typer) -> None:
    group = typer.Typer(help=HELP, rich_markup_mode=None, invoke_without_command=True, subcommand_metavar="[COMMAND] …")
    group.callback()(_stats_by_default)
    group.command("stats", help=STATS_HELP, short_help="Hits, size, savings, time and memory of compiles.")(show_stats)
    group.command("clear", help=CLEAR_HELP, short_help="Remove every entry.")(clear_cache)
    group.command("prune", help=PRUNE_HELP, short_help="Remove what was not used for long, or make it fit.")(
        prune_cache
    )
    group.command("verify", help=VERIFY_HELP, short_help="Find damaged entries; exit 1 if there are any.")(verify_cache)
    app.add_typer(group, name="cache")


def _stats_by_default(ctx: typer.Context, json: Json = False) -> None:
    if ctx.invoked_subcommand is None:
        show_stats(ctx, None, json)
    elif json:
        raise UsageError(
            f"--json before '{ctx.invoked_subcommand}'", hint=f"sparkctl cache {ctx.invoked_subcommand} … --json"
        )


def show_stats(
    ctx: typer.Context,
    kernels: Annotated[
        list[str] | None,
        typer.Argument(metavar="KERNEL", help="Kernel or variant names or globs.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    from sparkctl.render.cache import show_stats, stats_json
    from sparkctl.render.console import print_json, stdout_console
    from sparkctl.workflows.cache import take_stats

    cli = cli_context(ctx)
    report = take_stats(os.environ, kernels or ())
    if json:
        print_json(stats_json(report))
    else:
        show_stats(stdout_console(cli), report, every=cli.verbosity > 0)


def clear_cache(
    ctx: typer.Context,
    yes: Annotated[bool, typer.Option("--yes", help="Also a cache that CCACHE_DIR names.")] = False,
    json: Json = False,
) -> None:
    from sparkctl.render.cache import removal_json, show_removal
    from sparkctl.render.console import print_json, stdout_console
    from sparkctl.workflows.cache import clear

    removal = clear(os.environ, sure=yes)
    if json:
        print_json(removal_json(removal, "cache clear"))
    else:
        show_removal(stdout_console(cli_context(ctx)), removal)


def prune_cache(
    ctx: typer.Context,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="AGE", help="What nothing used for so long: 7d.", show_default=False),
    ] = None,
    max_size: Annotated[
        str | None,
        typer.Option("--max-size", metavar="SIZE", help="Down to this size, this once: 2G.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    from sparkctl.render.cache import removal_json, show_removal
    from sparkctl.render.console import print_json, stdout_console
    from sparkctl.render.sizes import parse_age, parse_bytes
    from sparkctl.workflows.cache import prune

    removal = prune(
        os.environ,
        older_than_s=None if older_than is None else parse_age(older_than),
        max_bytes=None if max_size is None else parse_bytes(max_size),
    )
    if json:
        print_json(removal_json(removal, "cache prune"))
    else:
        show_removal(stdout_console(cli_context(ctx)), removal)


def verify_cache(
    ctx: typer.Context,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the damaged entries.")] = False,
    json: Json = False,
) -> None:
    from sparkctl.render.cache import show_verification, verification_json
    from sparkctl.render.console import print_json, stdout_console
    from sparkctl.workflows.cache import verify

    cli = cli_context(ctx)
    with _entry_bar(cli) as on_entries:
        found = verify(os.environ, remove=remove, on_entries=on_entries)
    if json:
        print_json(verification_json(found))
    else:
        show_verification(stdout_console(cli), found)
    if found.damaged and not remove:
        count = "1 entry is" if len(found.damaged) == 1 else f"{len(found.damaged)} entries are"
        raise WorkFailed(f"{count} damaged", hint="sparkctl cache verify --remove")


@contextmanager
def _entry_bar(cli: CliContext) -> Iterator[Callable[[int, int], None]]:
    """A bar with the time left, on a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from sparkctl.render.console import stderr_console

    console = stderr_console(cli)
    if cli.verbosity < 0 or not console.is_terminal:
        yield lambda *_: None
        return
    columns = (TextColumn("entries"), BarColumn(bar_width=30), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("entries")
        yield lambda done, total: bar.update(task, completed=done, total=total)
