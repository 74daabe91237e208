"""Hints for names that are not known: the nearest one, or the short list of all."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

MAX_LISTED = 16


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """`did you mean 'head_dim'?`, else `known: a, b, c` where that is short, else None."""
    names = list(dict.fromkeys(known))
    listed = "known: " + ", ".join(names) if 0 < len(names) <= MAX_LISTED else None
    return nearest(word, names) or listed


def nearest(word: str, known: Iterable[str]) -> str | None:
    """`did you mean 'head_dim'?` or None."""
    folded = {name.lower(): name for name in known}
    near = get_close_matches(word.lower(), folded, n=1, cutoff=0.6)
    return f"did you mean '{folded[near[0]]}'?" if near else None
