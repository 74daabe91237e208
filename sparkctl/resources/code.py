"""A kernel's code as data, SASS and PTX alike: instructions with their source places, loops and the instruction mix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

Kind = tuple[str, str]  # (group, name): ("async copy", "LDGSTS.128")


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a source."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. `targets` are the labels that it names: of a branch, where it goes."""

    opcode: str  # with its modifiers: LDG.E.128, ld.global.nc.v4.u32
    operands: str
    guard: str = ""  # @P0, @!P0
    address: int | None = None  # in bytes; PTX has none
    targets: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()  # innermost first; then where it was inlined

    @property
    def place(self) -> Place | None:
        return self.places[0] if self.places else None

    @property
    def text(self) -> str:
        """Without address and guard."""
        return f"{self.opcode} {self.operands}" if self.operands else self.opcode


@dataclass(frozen=True, slots=True)
class Flow:
    """What an instruction means for the flow of control. `falls` through to the next one, or goes to `targets`."""

    falls: bool
    targets: tuple[str, ...] = ()
    unknown: bool = False  # an indirect branch


@dataclass(frozen=True, slots=True)
class Loop:
    """A natural loop: from `head` every turn starts. Positions, not addresses."""

    head: int
    body: frozenset[int]
    depth: int  # 1: in no other loop


@dataclass(frozen=True)
class Function:
    """One entry function with what it calls inside of its section; the padding behind it is not there."""

    name: str  # mangled
    arch: str | None
    instructions: tuple[Instruction, ...]
    labels: Mapping[str, int]  # label -> position
    callees: tuple[str, ...] = ()
    loops: tuple[Loop, ...] | None = None  # None: an indirect branch hides them

    @cached_property
    def looped(self) -> frozenset[int]:
        """Positions inside of some loop."""
        return frozenset[int]().union(*(loop.body for loop in self.loops or ()))


@dataclass(frozen=True, slots=True)
class Mix:
    """Instructions by kind, in the order of the groups."""

    all: Mapping[Kind, int]
    looped: Mapping[Kind, int] | None  # of these, inside of loops; None where loops are not known

    @property
    def total(self) -> int:
        return sum(self.all.values())

    @property
    def total_looped(self) -> int | None:
        return None if self.looped is None else sum(self.looped.values())

    def group(self, *names: str) -> int:
        """How many of these groups."""
        return sum(count for (group, _), count in self.all.items() if group in names)


@dataclass(frozen=True, slots=True)
class LineCount:
    """A source line and the instructions made of it; `looped` as of Mix."""

    place: Place | None  # None: what the compiler gave no line
    count: int
    looped: int | None
    groups: Mapping[str, int]


def count_mix(function: Function, kind_of: Callable[[Instruction], Kind], groups: Sequence[str]) -> Mix:
    """The mix in the order of `groups`, within one by number."""
    kinds = [kind_of(instruction) for instruction in function.instructions]
    inside = None
    if function.loops is not None:
        inside = Counter(kind for position, kind in enumerate(kinds) if position in function.looped)
    counts = Counter(kinds)
    order = sorted(counts, key=lambda kind: (groups.index(kind[0]), -counts[kind], kind[1]))
    return Mix({kind: counts[kind] for kind in order}, inside and dict(inside) if inside is not None else None)


def count_lines(function: Function, kind_of: Callable[[Instruction], Kind]) -> tuple[LineCount, ...]:
    """Instructions per innermost source line, by file and line; those without a line last."""
    positions: dict[Place | None, list[int]] = {}
    for position, instruction in enumerate(function.instructions):
        positions.setdefault(instruction.place, []).append(position)
    known = sorted((place for place in positions if place), key=lambda place: (place.file, place.line))
    ordered: list[Place | None] = [*known, *([None] if None in positions else [])]
    return tuple(
        LineCount(
            place,
            len(positions[place]),
            None if function.loops is None else sum(p in function.looped for p in positions[place]),
            Counter(kind_of(function.instructions[p])[0] for p in positions[place]),
        )
        for place in ordered
    )


def find_loops(
    flows: Sequence[Flow], labels: Mapping[str, int], entries: Iterable[int] = (0,)
) -> tuple[Loop, ...] | None:
    """The natural loops: a branch back to an instruction through which every way to the branch leads.

    A branch back from code that was only moved out of line is none. None where an indirect branch hides the ways.
    """
    if any(flow.unknown for flow in flows):
        return None
    following = [_following(position, flow, labels, len(flows)) for position, flow in enumerate(flows)]
    blocks, block_of = _blocks(following, labels, entries)
    edges = [tuple({block_of[to] for to in following[block[-1]]}) for block in blocks]
    dominators = _dominators(edges, {block_of[entry] for entry in entries if entry < len(flows)})
    bodies: dict[int, set[int]] = {}
    for block, successors in enumerate(edges):
        for head in successors:
            if head in dominators.get(block, ()):
                bodies.setdefault(head, {head}).update(_natural_body(edges, head, block))
    return tuple(
        Loop(blocks[head][0], frozenset(p for block in body for p in blocks[block]), _depth(head, bodies))
        for head, body in sorted(bodies.items())
    )


def _following(position: int, flow: Flow, labels: Mapping[str, int], count: int) -> tuple[int, ...]:
    ahead = [labels[target] for target in flow.targets if target in labels]
    ahead += [position + 1] if flow.falls else []
    return tuple(to for to in ahead if to < count)


def _blocks(
    following: Sequence[tuple[int, ...]], labels: Mapping[str, int], entries: Iterable[int]
) -> tuple[list[list[int]], list[int]]:
    starts = {0, *entries, *labels.values()}
    starts |= {position + 1 for position, ahead in enumerate(following) if ahead != (position + 1,)}
    blocks: list[list[int]] = []
    block_of: list[int] = []
    for position in range(len(following)):
        if position in starts:
            blocks.append([])
        blocks[-1].append(position)
        block_of.append(len(blocks) - 1)
    return blocks, block_of


def _dominators(edges: Sequence[tuple[int, ...]], entries: set[int]) -> dict[int, set[int]]:
    """Of every block that can be reached: the blocks that every way to it goes through."""
    reached: list[int] = []
    waiting = sorted(entries)
    while waiting:
        block = waiting.pop()
        if block not in reached:
            reached.append(block)
            waiting += edges[block]
    before: dict[int, list[int]] = {block: [] for block in reached}
    for block in reached:
        for to in edges[block]:
            before[to].append(block)
    everything = set(reached)
    dominators = {block: {block} if block in entries else set(everything) for block in reached}
    changed = True
    while changed:
        changed = False
        for block in reached:
            if block not in entries:
                new = {block}.union(set.intersection(*(dominators[b] for b in before[block])))
                changed |= new != dominators[block]
                dominators[block] = new
    return dominators


def _natural_body(edges: Sequence[tuple[int, ...]], head: int, tail: int) -> set[int]:
    """The blocks from which `tail` is reached without passing `head`."""
    body, waiting = {head}, [tail]
    while waiting:
        block = waiting.pop()
        if block not in body:
            body.add(block)
            waiting += [before for before, ahead in enumerate(edges) if block in ahead]
    return body


def _depth(head: int, bodies: Mapping[int, set[int]]) -> int:
    return sum(head in body for body in bodies.values())
