"""How built files looked when they were built, so that a later change of one is seen."""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from sparkctl.toolchain import hash_files


@dataclass(frozen=True, slots=True)
class Stamp:
    """Size and time are cheap to compare; the digest decides where they differ."""

    size: int
    mtime_ns: int
    digest: str


def take_stamp(path: Path) -> Stamp | None:
    """Of a file as it is now; None if there is none."""
    try:
        found = path.stat()
        return Stamp(found.st_size, found.st_mtime_ns, hash_files([path]))
    except OSError:
        return None


class StampCheck:
    """Compares files with their stamps; a content is read only where size or time differ, and once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, str | None] = {}
        self._touched: dict[Path, int] = {}

    def explain(self, path: str, stamp: Stamp | None) -> str | None:
        """Why the file is not what was built; None if it is. Relative paths from the root."""
        if path not in self._known:
            self._known[path] = self._look(path, stamp)
        return self._known[path]

    def restore_times(self) -> None:
        """Give files of equal content the time that ninja remembers; without the right to do so it builds them."""
        for path, mtime_ns in self._touched.items():
            with contextlib.suppress(OSError):
                os.utime(path, ns=(mtime_ns, mtime_ns))

    def _look(self, path: str, stamp: Stamp | None) -> str | None:
        full = self._root / path
        try:
            found = full.stat()
        except OSError:
            return f"{full.name} is missing"
        if not stat.S_ISREG(found.st_mode):
            return f"{full.name} is missing"
        if stamp and (found.st_size, found.st_mtime_ns) == (stamp.size, stamp.mtime_ns):
            return None
        if stamp and found.st_size == stamp.size and _digest(full) == stamp.digest:
            self._touched[full] = stamp.mtime_ns
            return None
        return f"{full.name} was changed since it was built"


def _digest(path: Path) -> str | None:
    try:
        return hash_files([path])
    except OSError:
        return None
