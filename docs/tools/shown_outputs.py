"""Runs what pages show behind `$ sparkctl …`, in a clone: `python docs/tools/shown_outputs.py [--update]`.

A fence that opens with `$ sparkctl` is a session: each line behind `$` is run, and the lines below it are what it
prints on a terminal of 100 columns, where a line `…` stands for any lines. The exit code is 1 if a page shows something
else; with --update an output without `…` is written anew, the others are left to be edited. A comment
`<!-- not run: why -->` ahead of a fence is for what needs another machine, file or revision. docs/tutorial.md has
run_tutorial.py.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from terminal import run_in_terminal

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(
    r"(?:<!-- not run: (?P<why>.+?) -->\n)?^```\n(?P<text>\$ sparkctl .*?)^```$", re.DOTALL | re.MULTILINE
)
SHELL = re.compile(r"^\$ (?P<command>.+)\n(?P<output>(?:(?!\$ ).*\n)*)", re.MULTILINE)
ANY_LINES = "…"


@dataclass(frozen=True, slots=True)
class Shown:
    """One command of a page and what the page shows of its output, which stands at begin:end. `why`: it is not run."""

    command: str
    output: str
    why: str | None
    begin: int
    end: int


def parse_page(page: str) -> list[Shown]:
    """The commands of a page in order."""
    return [
        Shown(part["command"], part["output"], fence["why"], *(fence.start("text") + at for at in part.span("output")))
        for fence in FENCE.finditer(page)
        for part in SHELL.finditer(fence["text"])
    ]


def matches(shown: str, printed: str) -> bool:
    """Whether the lines are the same; a line `…` takes any number of them, also none."""
    parts = ["(?:.*\n)*" if line.strip() == ANY_LINES else f"{re.escape(line)}\n" for line in shown.splitlines()]
    return re.fullmatch("".join(parts), printed) is not None


def replace(page: str, changes: Sequence[tuple[Shown, str]]) -> str:
    """The page with these outputs, those with `…` left as they are."""
    for shown, printed in reversed(changes):
        if ANY_LINES not in shown.output:
            page = page[: shown.begin] + printed + page[shown.end :]
    return page


def main(args: list[str]) -> int:
    changed = False
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "sparkctl"
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(tree)], check=True)
        for path in sorted((ROOT / "docs").rglob("*.md")):
            page = path.read_text(encoding="utf-8")
            changes = list(_changes(page, tree))
            for shown, printed in changes:
                print(f"{path.relative_to(ROOT)}: $ {shown.command}\n{printed}")
            if "--update" in args and changes:
                path.write_text(replace(page, changes), encoding="utf-8")
            changed = changed or bool(changes)
    return 1 if changed else 0


def _changes(page: str, tree: Path) -> Iterator[tuple[Shown, str]]:
    for shown in parse_page(page):
        if shown.why is None:
            print(f"… {shown.command}", file=sys.stderr)
            printed = run_in_terminal(shown.command, tree)
            if not matches(shown.output, printed.plain):
                yield shown, printed.plain + printed.errors * (printed.exit_code != 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
