"""What differs between two reports of the same kernels, and whether it is better, worse or a trade. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Verdict = Literal["same", "better", "worse", "moved", "new", "gone"]
Key = tuple[str, str]  # (name of the variant, arch)


@dataclass(frozen=True, slots=True)
class Numbers:
    """What a report says of one kernel on one arch; None where it is not known. Sizes in bytes."""

    registers: int  # per thread
    spill_store_bytes: int | None  # per thread
    spill_load_bytes: int | None
    stack_bytes: int
    static_smem_bytes: int | None  # per block
    dynamic_smem_bytes: int
    barriers: int | None
    blocks_per_sm: int | None
    warps_per_sm: int | None
    limiters: tuple[str, ...] | None = field(default=None, compare=False)  # follows from the rest; not pinned


# More of these is worse; of the warps more is better.
COSTS = (
    "registers",
    "spill_store_bytes",
    "spill_load_bytes",
    "stack_bytes",
    "static_smem_bytes",
    "dynamic_smem_bytes",
    "barriers",
)
FIELDS = (*COSTS, "blocks_per_sm", "warps_per_sm")


@dataclass(frozen=True, slots=True)
class Difference:
    """One number that is not what it was."""

    field: str
    old: int | None
    new: int | None

    @property
    def direction(self) -> Literal["better", "worse", "moved"]:
        """`moved` where one of the two is not known, and for blocks of another size: the warps decide."""
        if self.old is None or self.new is None or self.field == "blocks_per_sm":
            return "moved"
        return "worse" if (self.new > self.old) == (self.field in COSTS) else "better"


@dataclass(frozen=True, slots=True)
class Change:
    """One kernel on one arch, before and after; one of the two may be missing."""

    name: str
    arch: str
    old: Numbers | None
    new: Numbers | None

    @property
    def differences(self) -> tuple[Difference, ...]:
        if self.old is None or self.new is None:
            return ()
        pairs = ((field, getattr(self.old, field), getattr(self.new, field)) for field in FIELDS)
        found = [Difference(field, old, new) for field, old, new in pairs if old != new]
        if any(difference.field == "warps_per_sm" for difference in found):
            found = [difference for difference in found if difference.field != "blocks_per_sm"]
        return tuple(found)

    @property
    def verdict(self) -> Verdict:
        """`better` only where nothing got worse: fewer registers that spill are `moved`, a trade to be looked at."""
        if self.old is None:
            return "new"
        if self.new is None:
            return "gone"
        directions = {difference.direction for difference in self.differences}
        if not directions:
            return "same"
        return directions.pop() if len(directions) == 1 else "moved"


def compare(old: Mapping[Key, Numbers], new: Mapping[Key, Numbers]) -> tuple[Change, ...]:
    """Every kernel of either side, in `new`'s order, those that are gone behind."""
    keys = dict.fromkeys((*new, *old))
    return tuple(Change(name, arch, old.get((name, arch)), new.get((name, arch))) for name, arch in keys)
