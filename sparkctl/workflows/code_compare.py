"""The code of variants in two revisions, row by row. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from sparkctl.arch import Arch
from sparkctl.resources.code_diff import GroupChange, Hunk, diff_code, diff_mix, same_code
from sparkctl.workflows.code import CodeReport, CodeRow

Status = Literal["same", "changed", "new", "gone"]


@dataclass(frozen=True, slots=True)
class CodeChange:
    """One kernel of one variant on one arch, there and here."""

    name: str  # the variant's
    arch: Arch
    old: CodeRow | None
    new: CodeRow | None

    @property
    def status(self) -> Status:
        if self.old is None or self.new is None:
            return "gone" if self.new is None else "new"
        same = same_code(self.old.function, self.new.function) and self.old.registers == self.new.registers
        return "same" if same else "changed"

    @property
    def groups(self) -> tuple[GroupChange, ...]:
        """What the mix gained and lost; none where a side is missing."""
        return tuple(diff_mix(self.old.mix, self.new.mix)) if self.old and self.new else ()

    @property
    def hunks(self) -> tuple[Hunk, ...]:
        return diff_code(self.old.function, self.new.function) if self.old and self.new else ()


@dataclass(frozen=True, slots=True)
class CodeChanges:
    """`gone`: variants that the revision has and that are not here; they are not built."""

    revision: str  # `HEAD~1 (0123456789ab)`
    commit: str
    new: CodeReport
    rows: tuple[CodeChange, ...]
    gone: tuple[str, ...]

    def count(self, status: Status) -> int:
        return sum(row.status == status for row in self.rows)


def compare_reports(old: Sequence[CodeRow], new: Sequence[CodeRow]) -> Iterator[CodeChange]:
    """In the order of the new rows. Kernels are matched by variant, arch and function, and where a variant has one
    kernel on both sides by variant and arch alone."""
    left = {_key(row): row for row in old}
    for row in new:
        yield CodeChange(row.variant.name, row.arch, left.get(_key(row)) or _only(old, new, row), row)


def _key(row: CodeRow) -> tuple[str, str, str]:
    return row.variant.name, row.arch.name, row.function.name


def _only(old: Sequence[CodeRow], new: Sequence[CodeRow], row: CodeRow) -> CodeRow | None:
    there = [other for other in old if _key(other)[:2] == _key(row)[:2]]
    here = [other for other in new if _key(other)[:2] == _key(row)[:2]]
    return there[0] if len(there) == len(here) == 1 else None
