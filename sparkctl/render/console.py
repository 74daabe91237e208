"""Where output goes: consoles for results and messages, tables that lose nothing, and JSON."""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import sys
import unicodedata
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TextIO, cast

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console, RenderableType
    from rich.table import Table

PIPE_WIDTH = 10_000  # a pipe has no edge: rows stay on one line


# What stands for a character that the stream's encoding lacks and that Unicode cannot take apart.
SUBSTITUTES = {
    "×": "x",
    "÷": "/",
    "µ": "u",
    "·": ".",
    "–": "-",
    "−": "-",
    "→": "->",
    "≤": "<=",
    "≥": ">=",
    "∞": "inf",
}


class Screen(Protocol):
    """What a console needs of the global options."""

    @property
    def color(self) -> bool | None: ...


def prepare_streams() -> None:
    """A closed stream becomes the null device, and no encoding makes printing fail."""
    codecs.register_error("sparkctl", _substitute)
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            _open_null(descriptor)
            mode = "w" if descriptor else "r"
            setattr(sys, name, open(descriptor, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="sparkctl")


def stdout_console(screen: Screen) -> Console:
    """For results. On a terminal as wide as it is; in a pipe without colour and never cut, unless COLUMNS says so."""
    return console_on(screen, sys.stdout)


def stderr_console(screen: Screen) -> Console:
    """For progress and messages."""
    return console_on(screen, sys.stderr)


def print_json(data: Mapping[str, Any]) -> None:
    """One object on stdout; `schema_version` comes first."""
    whole = {"schema_version": 1, **data}
    text = json.dumps(whole, indent=2, ensure_ascii=False)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(whole, indent=2)
    print(text)


def plain_table(*headers: str, right: tuple[str, ...] = ()) -> Table:
    """A table without lines; text folds instead of being cut. `right` names the columns of numbers."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for header in headers:
        table.add_column(header, justify="right" if header in right else "left", overflow="fold")
    return table


def indented(renderable: RenderableType, *, above: int = 0) -> RenderableType:
    """Two columns further right, below `above` empty lines."""
    from rich.padding import Padding

    return Padding(renderable, (above, 0, 0, 2), expand=False)


def shown_path(path: Path) -> str:
    """From the current folder if it is at or below it, else whole."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def console_on(screen: Screen, stream: TextIO) -> Console:
    """For any stream."""
    from rich.console import Console

    class PipeConsole(Console):
        def on_broken_pipe(self) -> None:
            """rich would exit; cli/app.py decides."""
            raise BrokenPipeError

    piped = not stream.isatty()
    plain = screen.color is False or bool(os.environ.get("NO_COLOR"))
    return PipeConsole(
        file=cast(TextIO, _Trimmed(stream)) if piped else stream,
        color_system=None if plain else "auto",
        width=PIPE_WIDTH if piped and "COLUMNS" not in os.environ else None,
        highlight=False,
        markup=False,
        emoji=False,
    )


def _open_null(descriptor: int) -> None:
    """Else the next file that is opened would get the number, and with it what is meant for the stream."""
    try:
        os.fstat(descriptor)
    except OSError:
        null = os.open(os.devnull, os.O_RDWR)
        if null != descriptor:
            os.dup2(null, descriptor)
            os.close(null)
        os.set_inheritable(descriptor, True)


def _substitute(error: UnicodeError) -> tuple[str | bytes, int]:
    """For a codec: a character near in looks, else `?`; the bytes of a file name that is no text as they were."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    character = error.object[error.start]
    if 0xDC80 <= ord(character) <= 0xDCFF:  # as os.fsdecode makes them
        return bytes([ord(character) - 0xDC00]), error.start + 1
    near = SUBSTITUTES.get(character)
    return near or unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode() or "?", error.start + 1


class _Trimmed:
    """A stream without the blanks that rich fills lines up with."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(re.sub(r" +(?=\n)", "", text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
