"""Collects what is wrong in one registry, so that a reader sees all of it at once, in the order of the file."""

from __future__ import annotations

from collections.abc import Iterable

from sparkctl.errors import UsageError
from sparkctl.registry.document import Document, KeyPath, problem
from sparkctl.registry.suggest import did_you_mean, nearest

MAX_SHOWN = 20


class Problems:
    """Findings by key path; the line comes from the document."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.taken_out: frozenset[KeyPath] = frozenset()  # what broke the grammar: the checks see the rest
        self._found: list[tuple[int, UsageError]] = []

    @property
    def count(self) -> int:
        return len(self._found)

    def is_whole(self, path: KeyPath) -> bool:
        """Whether nothing at or below `path` was taken out."""
        return not any(out[: len(path)] == path for out in self.taken_out)

    def names_taken_out(self, section: str) -> list[str]:
        return [str(out[1]) for out in sorted(self.taken_out) if out[0] == section and len(out) > 1]

    def add(self, path: KeyPath, what: str, hint: str | None = None) -> None:
        location = self.document.location(path)
        self._found.append((location.line, problem(location, path, what, hint)))

    def add_unknown(self, path: KeyPath, kind: str, known: Iterable[str]) -> None:
        """`unknown axis 'head_dims'` for the last part of the path."""
        self.add(path, f"unknown {kind} '{path[-1]}'", did_you_mean(str(path[-1]), known))

    def add_not_one_of(self, path: KeyPath, value: object, known: Iterable[str]) -> None:
        names = list(known)
        self.add(path, f"'{value}' is not one of {', '.join(names)}", nearest(str(value), names))

    def add_error(self, path: KeyPath, error: UsageError) -> None:
        self.add(path, error.message, error.hint)

    def raise_any(self) -> None:
        if self._found:
            raise self.error()

    def error(self) -> UsageError:
        """One error for all findings: a line each; with several, a hint names the line it belongs to."""
        found = [error for _, error in sorted(self._found, key=lambda item: item[0])]
        if len(found) == 1:
            return found[0]
        lines = [error.message for error in found[:MAX_SHOWN]]
        if len(found) > MAX_SHOWN:
            lines.append(f"… and {len(found) - MAX_SHOWN} more")
        hints = [f"line {line}: {error.hint}" for line, error in sorted(self._found, key=lambda i: i[0]) if error.hint]
        return UsageError("\n".join(lines), hint="\n".join(hints[:MAX_SHOWN]) or None)
