"""How long each edge took to compile and how much memory it needed, over all build folders of this user."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass

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


def history_key(plan: BuildPlan, edge_name: str) -> str:
    """Edges of equal name on one backend, arch and profile are compared, in whatever folder they were built."""
    return f"{plan.backend}|{plan.arch}|{plan.profile}|{edge_name}"


def load_history(environ: Mapping[str, str]) -> dict[str, Measurement]:
    """Key -> measurement; empty if there is none that can be read."""
    try:
        data = json.loads((user_cache_folder(environ) / HISTORY_NAME).read_text(encoding="utf-8"))
        if data["version"] != HISTORY_VERSION:
            return {}
        return {key: Measurement(**entry) for key, entry in data["edges"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def add_to_history(environ: Mapping[str, str], measured: Mapping[str, tuple[float, int | None]]) -> None:
    """Merge in what was measured. A folder that cannot be written costs only the estimates."""
    if not measured:
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
            draft = folder / f".{HISTORY_NAME}.{os.getpid()}.tmp"
            entries = {key: asdict(entry) for key, entry in sorted(edges.items())}
            draft.write_text(json.dumps({"version": HISTORY_VERSION, "edges": entries}, indent=1), encoding="utf-8")
            draft.replace(folder / HISTORY_NAME)
