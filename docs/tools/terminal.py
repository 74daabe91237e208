"""Commands run on a terminal of their own, and the picture of what they printed."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH = 100
HEIGHT = 50
PROMPT = "$ "
# As rich's own, without its web font: a picture loads nothing, and its widths are fixed whatever the font.
FRAME = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: system-ui, sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


@dataclass(frozen=True, slots=True)
class Captured:
    """What one or more commands printed: stdout with its colours, stderr, and the last exit code."""

    colored: str
    errors: str
    exit_code: int

    @property
    def plain(self) -> str:
        """Without colours and blanks at line ends."""
        return "".join(f"{line.rstrip()}\n" for line in Text.from_ansi(self.colored).plain.splitlines())


def run_in_terminal(commands: str, folder: Path) -> Captured:
    """Runs shell lines in `folder`, whose sparkctl is the one that is called, with stdout on a terminal."""
    shown, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            ["bash", "-c", commands],
            cwd=folder,
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=terminal,
            stderr=errors,
        )
        os.close(terminal)
        colored = _read_all(shown)
        code = process.wait()
        errors.seek(0)
        return Captured(colored.replace("\r\n", "\n"), errors.read().decode(errors="replace"), code)


def picture(steps: Sequence[tuple[str, Captured]], *, title: str) -> str:
    """An SVG of a session: each command behind a prompt, then what it printed."""
    console = Console(record=True, width=WIDTH + len(PROMPT), file=io.StringIO(), force_terminal=True)
    for number, (command, captured) in enumerate(steps):
        prompt = Text.assemble((PROMPT, "bold green"), (command.strip(), "bold"))
        console.print(*([""] if number else []), prompt, Text.from_ansi(captured.colored.rstrip()), sep="\n", end="\n")
    return console.export_svg(title=title, code_format=FRAME)


def _environment(folder: Path) -> dict[str, str]:
    """This environment with the tree's own sparkctl, and nothing that changes what is printed."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SPARKCTL_FLAG_")}
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"):
        kept.pop(name, None)
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"
    return {**kept, "PATH": path, "PYTHONPATH": str(folder), "TERM": "xterm-256color", "CUDA_VISIBLE_DEVICES": ""}


def _read_all(descriptor: int) -> str:
    """Until the last writer has closed the terminal, which Linux tells as an error."""
    parts = []
    with os.fdopen(descriptor, "rb", buffering=0) as stream:
        while True:
            try:
                part = stream.read(65536)
            except OSError:
                break
            if not part:
                break
            parts.append(part)
    return b"".join(parts).decode(errors="replace")
