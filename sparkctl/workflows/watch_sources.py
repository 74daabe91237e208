"""Notices that sources change: stamps of the files that matter, what differs between two looks, and waiting for it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sparkctl.interrupts import check_interrupt

# Looked at again and again instead of asking the kernel for events: the build's own records name the files, a few
# hundred at most, and their stamps cost a millisecond or two. It works on network and overlay folders, where events are
# lost, needs no package that sparkctl does not have, and does not care how an editor writes: in place, by rename, or by
# a new file in place of the old one.
POLL_S = 0.2
SETTLE_S = 0.15  # quiet for so long: a burst of saves is over
PATIENCE_S = 2.0  # with something that never becomes quiet
SOURCES = frozenset((".cu", ".cuh", ".h", ".hh", ".hpp", ".hxx", ".inc", ".inl", ".c", ".cc", ".cpp", ".cxx", ".ptx"))

Stamp = tuple[int, int, int]  # mtime in ns, size, inode: a rename of the same size within one tick is told by the last
Snapshot = Mapping[Path, Stamp]


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that is not as it was."""

    path: Path
    what: Literal["changed", "added", "deleted"]


@dataclass(frozen=True, slots=True)
class Scope:
    """What is looked at: these files, and every source in these folders, `deep` ones with all below them."""

    files: frozenset[Path]
    deep: frozenset[Path]
    flat: frozenset[Path]

    def covers(self, path: Path) -> bool:
        """Whether a file would have been seen, were it there."""
        return path in self.files or path.parent in self.flat or any(path.is_relative_to(f) for f in self.deep)


def scope_of(inputs: Iterable[Path], root: Path) -> Scope:
    """The inputs, and the project's folders in which they lie, so that files that are new or gone are noticed.

    Below the root a whole top folder (`csrc`) counts, of the root itself its own files alone.
    """
    files = frozenset(inputs)
    inside = [path.relative_to(root) for path in files if path.is_relative_to(root)]
    deep = frozenset(root / path.parts[0] for path in inside if len(path.parts) > 1 and path.parts[0][0] != ".")
    flat = frozenset([root] if any(len(path.parts) == 1 and path.suffix in SOURCES for path in inside) else [])
    return Scope(files, deep, flat)


def take_snapshot(scope: Scope) -> dict[Path, Stamp]:
    """Stamps of everything in the scope that is there now."""
    found = {path: stamp for path in scope.files if (stamp := _stamp(path))}
    for folder in (*scope.deep, *scope.flat):
        for path in _sources_in(folder, deep=folder in scope.deep):
            if path not in found and (stamp := _stamp(path)):
                found[path] = stamp
    return found


def differences(before: Snapshot, now: Snapshot) -> tuple[FileChange, ...]:
    """By path. Pure."""
    changed = {path: FileChange(path, "changed") for path in before.keys() & now.keys() if before[path] != now[path]}
    added = {path: FileChange(path, "added") for path in now.keys() - before.keys()}
    deleted = {path: FileChange(path, "deleted") for path in before.keys() - now.keys()}
    return tuple(change for _, change in sorted((changed | added | deleted).items()))


def carry_over(before: Snapshot, earlier: Scope, now: Snapshot, began_ns: int) -> dict[Path, Stamp]:
    """`before`, with what is looked at only since: it counts as known unless it was written after `began_ns`. Pure."""
    known = {path: stamp for path, stamp in now.items() if not earlier.covers(path) and stamp[0] < began_ns}
    return {**known, **{path: stamp for path, stamp in before.items() if path in now or earlier.covers(path)}}


class SourceWatch:
    """The eyes of `sparkctl watch`; `look`, `sleep` and `clock` are the world's, or a test's."""

    def __init__(
        self,
        look: Callable[[Scope], dict[Path, Stamp]] = take_snapshot,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look = look
        self._sleep = sleep
        self._clock = clock
        self._scope = Scope(frozenset(), frozenset(), frozenset())
        self._known: dict[Path, Stamp] = {}

    def follow(self, scope: Scope, *, began_ns: int) -> None:
        """From now on look at `scope`. What was saved since the last `wait`, or since `began_ns`, still counts."""
        earlier, self._scope = self._scope, scope
        self._known = carry_over(self._known, earlier, self._look(scope), began_ns)

    def wait(self, matters: Callable[[FileChange], bool]) -> tuple[FileChange, ...]:
        """Until something that matters has changed and all is quiet again; the changes, each file once."""
        while True:
            check_interrupt()
            if any(matters(change) for change in differences(self._known, self._look(self._scope))):
                now = self._settle()
                found = tuple(change for change in differences(self._known, now) if matters(change))
                if found:  # else it is again as it was: an editor wrote by rename
                    self._known = now
                    return found
            self._sleep(POLL_S)

    def _settle(self) -> dict[Path, Stamp]:
        until = self._clock() + PATIENCE_S
        now = self._look(self._scope)
        while self._clock() < until:
            self._sleep(SETTLE_S)
            before, now = now, self._look(self._scope)
            if before == now:
                break
        return now


def _stamp(path: Path) -> Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _sources_in(folder: Path, *, deep: bool) -> Iterator[Path]:
    """Hidden files and folders are editors' and tools' own."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            if deep:
                yield from _sources_in(Path(entry.path), deep=True)
        elif Path(entry.name).suffix in SOURCES:
            yield Path(entry.path)
