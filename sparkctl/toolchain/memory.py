"""Remembers what slow probes of a tool said, until the tool's file changes."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MEMORY_VERSION = 3


def user_cache_folder(environ: Mapping[str, str]) -> Path:
    """Where sparkctl keeps what outlives a build folder: `SPARKCTL_CACHE_DIR`, else the user's cache folder."""
    if chosen := environ.get("SPARKCTL_CACHE_DIR"):
        return Path(chosen).expanduser().absolute()
    if os.name == "posix" and (base := environ.get("XDG_CACHE_HOME")):
        return Path(base).expanduser().absolute() / "sparkctl"
    import platformdirs

    return platformdirs.user_cache_path("sparkctl", appauthor=False)


def file_identity(path: Path) -> str:
    """Real path, size and modification time: the same text means the same file."""
    real = path.resolve()
    stat = real.stat()
    return f"{real}|{stat.st_size}|{stat.st_mtime_ns}"


class ProbeMemory:
    """Answers of probes in one JSON file; a folder that cannot be written only costs the probes again."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "probes.json"
        self._answers: dict[str, Any] | None = None

    def recall(self, key: str) -> Any | None:
        """What was remembered under `key`, or None."""
        return self._load().get(key)

    def remember(self, key: str, answer: Any) -> None:
        """Keep `answer`; what other processes wrote meanwhile stays."""
        self._answers = None
        answers = self._load()
        answers[key] = answer
        draft = self._path.with_name(f"{self._path.name}.{os.getpid()}.tmp")
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_text(json.dumps({"version": MEMORY_VERSION, "answers": answers}, indent=1), encoding="utf-8")
            draft.replace(self._path)

    def _load(self) -> dict[str, Any]:
        if self._answers is None:
            self._answers = {}
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
                data = json.loads(self._path.read_text(encoding="utf-8"))
                if data["version"] == MEMORY_VERSION:
                    self._answers = dict(data["answers"])
        return self._answers
