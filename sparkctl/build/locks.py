"""One build at a time in a build folder: a kernel lock, which no dead process can hold, with its owner's name."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from sparkctl.errors import WorkFailed

LOCK_NAME = ".lock"
OWNER_NAME = ".lock.owner"
POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds the lock."""

    pid: int
    host: str
    started: float  # seconds since the epoch

    @property
    def is_gone(self) -> bool:
        """Whether the process has ended; one on another host counts as alive."""
        return self.host == socket.gethostname() and not Path(f"/proc/{self.pid}").exists()

    def __str__(self) -> str:
        clock = time.strftime("%H:%M:%S", time.localtime(self.started))
        tail = "; it is gone, its compilers are still ending" if self.is_gone else ""
        return f"process {self.pid} on {self.host}, started {clock}{tail}"


@contextmanager
def hold_lock(folder: Path, *, say: Callable[[str], None], wait: bool = True) -> Iterator[int]:
    """Hold the folder's lock; yields its file descriptor, for children that must not outlive it unseen.

    While another process holds it, `say` is told whom we wait for, once for each holder; without `wait` it is
    WorkFailed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptors: list[int] = []
    lock = FileLock(folder / LOCK_NAME, on_acquired=descriptors.append, fallback_to_soft=False)
    told: str | None = None
    while True:
        try:
            lock.acquire(timeout=0)
            break
        except Timeout:
            waiting_for = str(read_owner(folder) or "another process")
            if not wait:
                raise WorkFailed(f"a build runs in {folder}: {waiting_for}", hint="wait until it has ended") from None
            if waiting_for != told:
                say(f"waiting for {waiting_for}, which builds in {folder}")
                told = waiting_for
            time.sleep(POLL_S)
    shared = os.dup(descriptors[-1])  # filelock closes its own descriptor in forked children
    try:
        _write_owner(folder)
        yield shared
    finally:
        os.close(shared)
        with contextlib.suppress(OSError):
            (folder / OWNER_NAME).unlink()
        lock.release()


def read_owner(folder: Path) -> Owner | None:
    """Who wrote their name last; the lock itself may be free by now."""
    try:
        return Owner(**json.loads((folder / OWNER_NAME).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def is_locked(folder: Path) -> bool:
    """Whether a process holds the lock at this moment."""
    if not (folder / LOCK_NAME).exists():
        return False
    lock = FileLock(folder / LOCK_NAME, fallback_to_soft=False)
    try:
        with lock.acquire(timeout=0):
            return False
    except Timeout:
        return True


def find_holders(folder: Path) -> tuple[tuple[int, str], ...]:
    """Process ids and names of what has the lock's file open, as far as this user may see it."""
    lock = (folder / LOCK_NAME).resolve()
    holders = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(descriptor.readlink() == lock for descriptor in (entry / "fd").iterdir()):
                holders[int(entry.name)] = (entry / "comm").read_text(encoding="utf-8", errors="replace").strip()
    return tuple(sorted(holders.items()))


def _write_owner(folder: Path) -> None:
    owner = Owner(os.getpid(), socket.gethostname(), time.time())
    draft = folder / f"{OWNER_NAME}.{owner.pid}"
    draft.write_text(json.dumps(asdict(owner)), encoding="utf-8")
    draft.replace(folder / OWNER_NAME)
