"""What the last test of each variant said and of which code it said it, kept between runs: `sparkctl regs` shows it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

VERSION = 1
Code = Mapping[str, str]  # source file -> digest of its content: what a variant was compiled from


@dataclass(frozen=True, slots=True)
class Verdict:
    """One variant's last test on one backend with one set of flags."""

    variant: str
    backend: str
    device: str  # "the emulator", or the GPU's name
    arch: str
    profile: str
    sets: Mapping[str, str]  # flags that decide what the backend compiles
    cases: int  # that ran
    failed: int
    whole: bool  # every case of the grid ran
    commit: str | None
    dirty: bool | None
    time: str  # ISO 8601, UTC
    code: str  # key of its Code

    @property
    def key(self) -> tuple[str, ...]:
        """A later verdict of the same key replaces this one."""
        arch = self.arch if self.backend == "cuda" else ""
        return self.variant, self.backend, arch, self.profile, json.dumps(dict(self.sets), sort_keys=True)


@dataclass(frozen=True, slots=True)
class VerdictBook:
    """Every verdict that was kept, and the code that each is about."""

    verdicts: tuple[Verdict, ...] = ()
    codes: Mapping[str, Code] | None = None

    def code_of(self, verdict: Verdict) -> Code:
        return (self.codes or {}).get(verdict.code, {})


def code_key(code: Code) -> str:
    """Stands for the code in verdicts."""
    return hashlib.blake2b(json.dumps(dict(code), sort_keys=True).encode(), digest_size=8).hexdigest()


def merge(book: VerdictBook, new: Iterable[Verdict], codes: Mapping[str, Code]) -> VerdictBook:
    """The newest wins, but for a part of the cases that passed beside all of them that passed with the same code."""
    kept = {verdict.key: verdict for verdict in book.verdicts}
    for verdict in new:
        old = kept.get(verdict.key)
        says_less = old and old.code == verdict.code and old.whole and not old.failed
        if not (says_less and not verdict.whole and not verdict.failed):
            kept[verdict.key] = verdict
    verdicts = tuple(sorted(kept.values(), key=lambda verdict: verdict.key))
    used = {verdict.code for verdict in verdicts}
    return VerdictBook(verdicts, {key: c for key, c in {**(book.codes or {}), **codes}.items() if key in used})


def recall(path: Path) -> VerdictBook:
    """What was kept; nothing where no file can be read."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["schema_version"] != VERSION:
            return VerdictBook()
        return VerdictBook(tuple(Verdict(**entry) for entry in data["verdicts"]), dict(data["codes"]))
    except (OSError, ValueError, KeyError, TypeError):
        return VerdictBook()


def remember(path: Path, new: Iterable[Verdict], codes: Mapping[str, Code]) -> None:
    """Add to what was kept. A folder that cannot be written keeps nothing."""
    book = merge(recall(path), new, codes)
    data = {"schema_version": VERSION, "codes": book.codes, "verdicts": [asdict(verdict) for verdict in book.verdicts]}
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}.tmp")
        draft.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        draft.replace(path)
