"""What is left of a flags.yaml with mistakes of grammar, so that the checks behind the grammar still see the rest."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

from sparkctl.registry.document import KeyPath

ENTRY = 2  # kernels.attn_combine
DEEPEST = 4  # kernels.attn_combine.axes.dtype: what is wrong below it takes it out
STAND_INS: dict[str, Any] = {"family": "-", "doc": "-", "source": "-", "min_arch": "sm_80", "block": 1}


def salvage(data: Any, bad: Iterable[KeyPath]) -> tuple[Any, frozenset[KeyPath]] | None:
    """A copy without the keys that are wrong, and the paths of what was taken out.

    A flag and a suite go as a whole, since their keys explain each other. Profiles and kernels stay, with stand-ins
    for keys that a kernel needs, so that no name becomes unknown. None where the top level is wrong: then nothing below
    can be judged, except for `version` and `naming`.
    """
    out = frozenset(_cut(path) for path in bad)
    if any(len(path) < ENTRY and path not in (("version",), ("naming",)) for path in out):
        return None
    rest = deepcopy(data)
    for path in out:
        _take_out(rest, path)
    rest["version"] = 1
    for path in out:
        if path[0] == "kernels":
            name = path[1]
            rest["kernels"][name] = STAND_INS | rest["kernels"].get(name, {})
        elif path[0] == "profiles":
            rest["profiles"].setdefault(path[1], {})
    return rest, out


def _cut(path: KeyPath) -> KeyPath:
    """The part of `path` to take out: never an item of a list, whose neighbours would move."""
    if path[:1] in (("flags",), ("suites",)):
        return path[:ENTRY]
    end = min(len(path), DEEPEST)
    while end and isinstance(path[end - 1], int):
        end -= 1
    return path[:end]


def _take_out(data: Any, path: KeyPath) -> None:
    for part in path[:-1]:
        data = data.get(part) if isinstance(data, dict) else None
    if isinstance(data, dict):
        data.pop(path[-1], None)
