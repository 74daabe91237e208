"""The pattern of kernel names: regular expressions matched in bounded time, without backtracking."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_PATTERN = 500  # characters
MAX_NAME = 100  # characters of a kernel's name
MAX_DEPTH = 3  # repetitions inside each other

_TOKEN = re.compile(
    r"(?P<repeat>[*+?]|\{(\d+(,\d*)?|,\d*)\})|(?P<open>\((\?:)?)|(?P<close>\))|(?P<bar>\|)|(?P<start>\^)|(?P<end>\$)"
    r"|(?P<atom>\\.|\[\^?\]?(\\.|[^\]\\])*\]|.)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class _Node:
    """`kind` is atom, start, end, all (one part behind the other), any (one of the parts) or repeat."""

    kind: str
    parts: tuple[_Node, ...] = ()
    atom: re.Pattern[str] | None = None
    least: int = 0
    most: int = 0


class Naming:
    """A regular expression of characters, classes, groups, `|`, `? * + {m,n}`, `^` and `$`; ValueError for others."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MAX_PATTERN:
            raise ValueError(f"longer than {MAX_PATTERN} characters")
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(str(error)) from error
        self._root = _parse_any(_tokens(pattern))
        if _depth(self._root) > MAX_DEPTH:
            raise ValueError(f"more than {MAX_DEPTH} repetitions inside each other")

    def matches(self, name: str) -> bool:
        """Whether the whole name matches; one longer than MAX_NAME does not."""
        return len(name) <= MAX_NAME and len(name) in _ends(self._root, name, frozenset([0]))


def _tokens(pattern: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(pattern):
        match = _TOKEN.match(pattern, position)
        if match is None or match.lastgroup is None:
            raise ValueError(f"'{pattern[position:]}' is not understood")
        text, position = match[0], match.end()
        kind = next(group for group, value in match.groupdict().items() if value is not None)
        if text == "(" and pattern.startswith("?", position):
            raise ValueError(f"'{pattern[position - 1 : position + 2]}' cannot be used")
        if re.fullmatch(r"\\[^\W_dDwWsS]", text):
            raise ValueError(f"'{text}' cannot be used")
        yield kind, text


def _parse_any(tokens: Iterator[tuple[str, str]]) -> _Node:
    """Up to the closing bracket or the end."""
    branches: list[_Node] = []
    parts: list[_Node] = []
    for kind, text in tokens:
        if kind == "close":
            break
        if kind == "bar":
            branches.append(_Node("all", tuple(parts)))
            parts = []
        elif kind == "repeat":
            parts.append(_repeat(parts.pop(), text))
        elif kind == "open":
            parts.append(_parse_any(tokens))
        else:
            parts.append(_Node(kind, atom=re.compile(text, re.DOTALL) if kind == "atom" else None))
    return _Node("any", (*branches, _Node("all", tuple(parts))))


def _repeat(node: _Node, text: str) -> _Node:
    if node.kind == "repeat":
        raise ValueError(f"a repetition of a repetition, '{text}', cannot be used")
    if text in "*+?":
        return _Node("repeat", (node,), least=int(text == "+"), most=1 if text == "?" else MAX_NAME)
    least, comma, most = text[1:-1].partition(",")
    stop = int(most) if most else MAX_NAME if comma else int(least)
    return _Node("repeat", (node,), least=int(least or 0), most=max(stop, int(least or 0)))


def _depth(node: _Node) -> int:
    return max((_depth(part) for part in node.parts), default=0) + (node.kind == "repeat" and node.most > 1)


def _ends(node: _Node, name: str, starts: frozenset[int]) -> frozenset[int]:
    """Where a match of `node` can end that begins at one of `starts`."""
    if node.atom is not None:
        return frozenset(at + 1 for at in starts if at < len(name) and node.atom.fullmatch(name[at]))
    if node.kind in ("start", "end"):
        return starts & {0 if node.kind == "start" else len(name)}
    if node.kind == "any":
        return frozenset().union(*(_ends(part, name, starts) for part in node.parts))
    if node.kind == "repeat":
        return _repeated_ends(node, name, starts)
    for part in node.parts:
        starts = _ends(part, name, starts)
    return starts


def _repeated_ends(node: _Node, name: str, starts: frozenset[int]) -> frozenset[int]:
    for _ in range(node.least):
        before, starts = starts, _ends(node.parts[0], name, starts)
        if starts == before:
            break
    found = fresh = starts
    for _ in range(node.most - node.least):
        fresh = _ends(node.parts[0], name, fresh) - found
        if not fresh:
            break
        found |= fresh
    return found
