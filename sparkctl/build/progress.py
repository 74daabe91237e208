"""What a running build tells whoever watches it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Progress(Protocol):
    """All calls come from the thread that builds."""

    def say(self, text: str) -> None:
        """A message for people: whom we wait for, a cache that cannot be used."""

    def start(self, label: str, expected: Mapping[str, float | None], jobs: int) -> None:
        """Edges that will run, with the seconds each took last time (None: never measured)."""

    def edge(self, name: str, ok: bool) -> None:
        """One edge ended."""

    def stop(self) -> None:
        """The library's edges are done, or the build was interrupted."""


class SilentProgress:
    """Tells nobody."""

    def say(self, text: str) -> None:
        """Nothing."""

    def start(self, label: str, expected: Mapping[str, float | None], jobs: int) -> None:
        """Nothing."""

    def edge(self, name: str, ok: bool) -> None:
        """Nothing."""

    def stop(self) -> None:
        """Nothing."""
