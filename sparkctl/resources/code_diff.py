"""What differs between two versions of a function's code, numbers that the compiler hands out aside. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from sparkctl.resources.code import Function, Instruction, Mix
from sparkctl.resources.sass import GROUPS

NORMALISED = "compared without addresses, numbers of registers, predicates, barriers and labels, and .reuse"
_SASS_NAMES = re.compile(r"\b(?P<kind>UR|UP|R|P|B)\d+\b")
_SASS_LABEL = re.compile(r"\.L_\w+")
_PTX_NAMES = re.compile(r"%(?P<kind>[a-z]+)\d+\b(?!\.)")
_PTX_LABEL = re.compile(r"\$L_\w+")

Mark = Literal[" ", "-", "+"]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a diff; where both sides have it, as the new one has it."""

    mark: Mark
    text: str


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines that belong together, and where they begin: positions of lines, from 1."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class GroupChange:
    """A group of the mix in both versions; `names` are the kinds that differ, old and new."""

    group: str
    all: tuple[int, int]
    looped: tuple[int, int] | None
    names: Mapping[str, tuple[int, int]]


def normalise(instruction: Instruction) -> str:
    """`@P LDG.E R, desc[UR][R.64]`: what two versions are compared by."""
    text = f"{instruction.guard} {instruction.text}".replace(".reuse", "")
    for pattern, new in ((_SASS_LABEL, ".L"), (_PTX_LABEL, "$L")):
        text = pattern.sub(new, text)
    return _PTX_NAMES.sub(r"%\g<kind>", _SASS_NAMES.sub(r"\g<kind>", text))


def same_code(old: Function, new: Function) -> bool:
    """Whether nothing is left to differ."""
    return list(map(normalise, old.instructions)) == list(map(normalise, new.instructions))


def diff_code(old: Function, new: Function, *, context: int = 3) -> tuple[Hunk, ...]:
    """The hunks of a unified diff: compared as `normalise` has them, shown as they are."""
    matcher = SequenceMatcher(
        None, [normalise(i) for i in old.instructions], [normalise(i) for i in new.instructions], autojunk=False
    )
    return tuple(_hunk(group, old, new) for group in matcher.get_grouped_opcodes(context))


def diff_mix(old: Mix, new: Mix) -> Iterator[GroupChange]:
    """The groups in which some kind differs, in all or in loops, in the order of GROUPS."""
    before, after = old.looped or {}, new.looped or {}
    known = old.looped is not None and new.looped is not None
    for group in GROUPS:
        kinds = [kind for kind in dict.fromkeys([*new.all, *old.all]) if kind[0] == group]
        counts = {kind[1]: (old.all.get(kind, 0), new.all.get(kind, 0)) for kind in kinds}
        looped = {kind[1]: (before.get(kind, 0), after.get(kind, 0)) for kind in kinds}
        changed = {name: pair for name, pair in counts.items() if pair[0] != pair[1]}
        if changed or (known and any(a != b for a, b in looped.values())):
            yield GroupChange(group, _total(counts), _total(looped) if known else None, changed)


def _total(counts: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    return sum(a for a, _ in counts.values()), sum(b for _, b in counts.values())


def _hunk(opcodes: Sequence[tuple[str, int, int, int, int]], old: Function, new: Function) -> Hunk:
    lines: list[Line] = []
    for tag, old_from, old_to, new_from, new_to in opcodes:
        if tag == "equal":
            lines += [Line(" ", _shown(i)) for i in new.instructions[new_from:new_to]]
            continue
        lines += [Line("-", _shown(i)) for i in old.instructions[old_from:old_to]]
        lines += [Line("+", _shown(i)) for i in new.instructions[new_from:new_to]]
    first, last = opcodes[0], opcodes[-1]
    return Hunk(first[1] + 1, last[2] - first[1], first[3] + 1, last[4] - first[3], tuple(lines))


def _shown(instruction: Instruction) -> str:
    return f"{instruction.guard:>5} {instruction.text}"
