"""Markdown that reads the same on a git host and on the site."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1]


def code(text: str) -> str:
    """As code inside a table; nothing stays nothing."""
    return "`" + text.replace("|", r"\|") + "`" if text else ""


def cell(text: str) -> str:
    """Prose for a table's cell: what Markdown would read as markup is escaped, outside of code."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([*_<>|\[\]])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts).replace("\\_", "_")  # inside of words an underscore is none


def link_pages(text: str) -> str:
    """`docs/testing.md` becomes a link to the page, seen from docs/reference; a page that is not there stays text."""

    def link(found: re.Match[str]) -> str:
        page = found[1]
        return f"[{found[0]}](../{page})" if (DOCS / page).is_file() else found[0]

    return re.sub(r"\bdocs/([\w/-]+\.md)", link, text)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> str:
    """A table; columns named in `right` are numbers."""
    rule = ["---:" if name in right else "---" for name in header]
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, rule, *rows))
