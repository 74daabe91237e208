"""Where output goes: consoles for results and messages, tables that lose nothing, and JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PIPE_WIDTH = 10_000  # a pipe has no edge: rows stay on one line


class Screen(Protocol):
    """What a console needs of the global options."""

    @property
    def color(self) -> bool | None: ...


def stdout_console(screen: Screen) -> Console:
    """For results. On a terminal as wide as it is; in a pipe without colour and never cut, unless COLUMNS says so."""
    return _console(screen, sys.stdout)


def stderr_console(screen: Screen) -> Console:
    """For progress and messages."""
    return _console(screen, sys.stderr)


def print_json(data: Mapping[str, Any]) -> None:
    """One object on stdout; `schema_version` comes first."""
    print(json.dumps({"schema_version": 1, **data}, indent=2, ensure_ascii=False))


def plain_table(*headers: str, right: tuple[str, ...] = ()) -> Table:
    """A table without lines; text folds instead of being cut. `right` names the columns of numbers."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for header in headers:
        table.add_column(header, justify="right" if header in right else "left", overflow="fold")
    return table


def _console(screen: Screen, stream: TextIO) -> Console:
    from rich.console import Console

    wide = not stream.isatty() and "COLUMNS" not in os.environ
    return Console(
        file=stream,
        no_color=True if screen.color is False or os.environ.get("NO_COLOR") else None,
        width=PIPE_WIDTH if wide else None,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
    )
