"""Watches the memory of each running edge, so that the next build knows how many fit."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path

PERIOD_S = 0.05
_PAGE = os.sysconf("SC_PAGE_SIZE")
_EDGE = re.compile(rb"SPARKCTL_EDGE='?([A-Za-z0-9_./+-]+)")


class MemorySampler:
    """Peak resident memory of every edge below one ninja process; a thread of its own while it is open."""

    def __init__(self, ninja_pid: int, proc: Path = Path("/proc")) -> None:
        self._ninja = ninja_pid
        self._proc = proc
        self._names: dict[int, str | None] = {}
        self._peaks: dict[str, int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory-sampler", daemon=True)

    def __enter__(self) -> MemorySampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(timeout=1)

    @property
    def peaks(self) -> dict[str, int]:
        """Edge name -> bytes; edges shorter than the period may be missing."""
        return dict(self._peaks)

    def sample(self) -> None:
        """Look once."""
        for shell in self._children(self._ninja):
            name = self._edge_name(shell)
            if name:
                self._peaks[name] = max(self._peaks.get(name, 0), self._tree_bytes(shell))

    def _watch(self) -> None:
        while not self._ended.wait(PERIOD_S):
            self.sample()

    def _edge_name(self, pid: int) -> str | None:
        if pid not in self._names:
            match = _EDGE.search(self._read(f"{pid}/cmdline"))
            if match is None:
                return None  # between fork and exec: look again next time
            self._names[pid] = match[1].decode()
        return self._names[pid]

    def _tree_bytes(self, pid: int) -> int:
        words = self._read(f"{pid}/statm").split()
        own = int(words[1]) * _PAGE if len(words) > 1 else 0
        return own + sum(self._tree_bytes(child) for child in self._children(pid))

    def _children(self, pid: int) -> list[int]:
        return [int(word) for word in self._read(f"{pid}/task/{pid}/children").split()]

    def _read(self, name: str) -> bytes:
        try:
            return (self._proc / name).read_bytes()
        except OSError:
            return b""
