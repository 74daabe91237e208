"""One line of `sparkctl doctor`."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from sparkctl.errors import SparkctlError

# absent: not there, and not needed for building, register reports and tests. warning: works, at a cost.
State = Literal["ok", "absent", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A thing that this machine has or lacks."""

    name: str
    state: State
    what: str  # its version, or what is wrong
    where: str = ""  # its path, and why this one
    fix: str | None = None


def found(name: str, look: Callable[[], Iterable[Finding]], *, state: State = "error") -> Iterator[Finding]:
    """What `look` finds; what it raises becomes a finding of `state`, so that one fault hides no other."""
    try:
        yield from look()
    except SparkctlError as error:
        yield Finding(name, state, _one_line(error.message), fix=error.hint)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        what = f"{where}{error.strerror or error}"
        yield Finding(name, state, what, fix=fix_for(what, "mend its permissions"))


def fix_for(fault: str, otherwise: str | None) -> str | None:
    """A full disk lets every program fail in its own words, and helps itself alone."""
    full = any(os.strerror(number) in fault for number in (errno.ENOSPC, errno.EDQUOT))
    return "free some space, or name another folder in TMPDIR" if full else otherwise


def _one_line(text: str) -> str:
    """A failed program's report starts with its command: its last line is what it said."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if len(lines) <= 1 else f"{lines[0]}: {lines[-1]}"
