"""The steps of docs/tutorial.md: what a reader edits and types, and what the page says is printed.

A fence `sh` is typed, a fence `diff` is an edit, and a fence without a language right behind a typed one is what that
prints. A comment ahead of a fence says what is out of the ordinary, one or more of

    <!-- step: not run -->          left to other checks
    <!-- step: in ../broken -->     the edit is of that tree
    <!-- step: exits 1 -->          the last command's exit code, else 0
    <!-- step: in the picture -->   part of docs/assets/terminal.svg

with `;` between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

PART = re.compile(r"<!-- step: (?P<words>.+?) -->|^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
WORDS = re.compile(r"not run|in the picture|in (?P<tree>\.\./\w+)|exits (?P<code>\d+)")


@dataclass(frozen=True, slots=True)
class Step:
    """One fence to carry out. `begin` and `end` are where its output stands on the page; equal where it has none."""

    kind: str  # sh or diff
    text: str
    tree: str
    exit_code: int
    run: bool
    pictured: bool
    output: str | None
    begin: int
    end: int


def parse_tutorial(page: str) -> list[Step]:
    """The steps in order.

    Raises ValueError for a comment of another form, and for an output that no command stands ahead of.
    """
    return list(_steps(page, list(PART.finditer(page))))


def replace_outputs(page: str, steps: Sequence[Step], outputs: Sequence[str | None]) -> str:
    """The page with these outputs; None leaves one as it is."""
    for step, output in reversed(list(zip(steps, outputs, strict=True))):
        if output is not None:
            page = page[: step.begin] + output + page[step.end :]
    return page


def _steps(page: str, parts: Sequence[re.Match[str]]) -> Iterator[Step]:
    said: list[re.Match[str]] = []
    used: re.Match[str] | None = None
    for part, following in zip(parts, [*parts[1:], None], strict=True):
        if part["words"]:
            said = [_word(text.strip(), page, part) for text in part["words"].split(";")]
        elif part["language"] in ("sh", "diff"):
            used = following if _is_output(page, part, following) else None
            yield _step(part, said, used)
            said = []
        elif not part["language"] and part is not used:
            raise ValueError(f"line {_line(page, part)}: an output without its command")


def _step(part: re.Match[str], said: Sequence[re.Match[str]], output: re.Match[str] | None) -> Step:
    words = {word[0] for word in said}
    return Step(
        kind=part["language"],
        text=part["text"],
        tree=next((word["tree"] for word in said if word["tree"]), "."),
        exit_code=next((int(word["code"]) for word in said if word["code"]), 0),
        run="not run" not in words,
        pictured="in the picture" in words,
        output=output["text"] if output else None,
        begin=output.start("text") if output else 0,
        end=output.end("text") if output else 0,
    )


def _is_output(page: str, part: re.Match[str], following: re.Match[str] | None) -> bool:
    if following is None or following["language"] != "" or part["language"] != "sh":
        return False
    return not page[part.end() : following.start()].strip()


def _word(text: str, page: str, part: re.Match[str]) -> re.Match[str]:
    found = WORDS.fullmatch(text)
    if found is None:
        raise ValueError(f"line {_line(page, part)}: a step cannot be '{text}'")
    return found


def _line(page: str, part: re.Match[str]) -> int:
    return page.count("\n", 0, part.start()) + 1
