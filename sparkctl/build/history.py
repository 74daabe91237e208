"""How long each edge took to compile and how much memory it needed, over all build folders of this user."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from filelock import FileLock, Timeout

from sparkctl.build.model import BuildPlan
from sparkctl.toolchain import user_cache_folder

HISTORY_NAME = "history.json"
HISTORY_VERSION = 1


@dataclass(frozen=True, slots=True)
class Measurement:
    """The last real compile of one edge; cache hits are not measured."""

    time_s: float
    peak_bytes: int | None
    when: float  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class Savings:
    """What the cache saved since the first hit that was counted: each hit's last real compile less the hit."""

    hits: int = 0
    saved_s: float = 0.0
    since: float | None = None  # seconds since the epoch


def history_key(plan: BuildPlan, edge_name: str) -> str:
    """Edges of equal name on one backend, arch and profile are compared, in whatever folder they were built."""
    return f"{plan.backend}|{plan.arch}|{plan.profile}|{edge_name}"


def split_key(key: str) -> tuple[str, str, str, str]:
    """Backend, arch, profile and the edge's name."""
    backend, arch, profile, name = key.split("|", 3)
    return backend, arch, profile, name


def load_history(environ: Mapping[str, str]) -> dict[str, Measurement]:
    """Key -> measurement; empty if there is none that can be read."""
    try:
        entries = _read(environ)["edges"].items()
        return {str(key): Measurement(**entry) for key, entry in entries if str(key).count("|") >= 3}
    except (KeyError, TypeError, AttributeError):
        return {}


def load_savings(environ: Mapping[str, str]) -> Savings:
    """Of all builds of this user."""
    try:
        return Savings(**_read(environ).get("savings", {}))
    except TypeError:
        return Savings()


def add_to_history(
    environ: Mapping[str, str], measured: Mapping[str, tuple[float, int | None]], saved: Sequence[float] = ()
) -> None:
    """Merge in what was measured, and the seconds that each hit saved. A folder that cannot be written costs only the
    estimates."""
    if not measured and not saved:
        return
    folder = user_cache_folder(environ)
    with contextlib.suppress(OSError, Timeout):
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f".{HISTORY_NAME}.lock", timeout=2):
            edges = load_history(environ)
            now = time.time()
            for key, (seconds, peak) in measured.items():
                before = edges.get(key)
                known = peak if peak is not None or before is None else before.peak_bytes
                edges[key] = Measurement(round(seconds, 3), known, round(now))
            savings = load_savings(environ)
            if saved:
                total = round(savings.saved_s + sum(saved), 3)
                savings = Savings(savings.hits + len(saved), total, savings.since or round(now))
            draft = folder / f".{HISTORY_NAME}.{os.getpid()}.tmp"
            data = {
                "version": HISTORY_VERSION,
                "savings": asdict(savings),
                "edges": {key: asdict(entry) for key, entry in sorted(edges.items())},
            }
            draft.write_text(json.dumps(data, indent=1), encoding="utf-8")
            draft.replace(folder / HISTORY_NAME)


def _read(environ: Mapping[str, str]) -> dict[str, Any]:
    """The file's object; an empty one if there is none of this version."""
    try:
        data = json.loads((user_cache_folder(environ) / HISTORY_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) and data.get("version") == HISTORY_VERSION else {}
