"""What the documentation's pages hold: their fences and their inline code, with the line of each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Snippet:
    """A piece of code of a page; `language` is of its fence, None for inline code."""

    where: str
    language: str | None
    text: str


def snippets() -> Iterator[Snippet]:
    """Each line of each fence, and each piece of inline code. A line that ends in a backslash takes in the next."""
    for page in PAGES:
        name = str(page.relative_to(ROOT))
        text = page.read_text(encoding="utf-8")
        for fence in FENCE.finditer(text):
            first = text.count("\n", 0, fence.start(2)) + 1
            for number, line in enumerate(fence[2].replace("\\\n", " ").splitlines(), first):
                yield Snippet(f"{name}:{number}", fence[1], line)
        prose = FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), text)
        for code in re.finditer(r"`([^`\n]+(?:\n[^`\n]+)?)`", prose):
            number = prose.count("\n", 0, code.start()) + 1
            yield Snippet(f"{name}:{number}", None, " ".join(code[1].split()).replace("\\|", "|"))
