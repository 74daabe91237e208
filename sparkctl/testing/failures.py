"""Which cases failed, kept between runs for --last-failed."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

from sparkctl.testing.results import VariantResult

VERSION = 1
Failed = frozenset[tuple[str, str]]  # (variant name, case id)


def recall(path: Path, backend: str) -> Failed:
    """What failed when it last ran on the backend; nothing where no run was kept."""
    return frozenset((variant, case) for variant, case in read_all(path).get(backend, []))


def remember(path: Path, backend: str, results: Iterable[VariantResult]) -> None:
    """Keep what failed; cases that did not run keep their state. A folder that cannot be written keeps nothing."""
    kept = read_all(path)
    failed = set(recall(path, backend))
    for result in results:
        failed -= {(result.variant.name, case_id) for case_id in result.case_ids}
        failed |= {(result.variant.name, failure.case_id) for failure in result.failures}
    data = {"schema_version": VERSION, "failed": {**kept, backend: sorted(failed)}}
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}.tmp")
        draft.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        draft.replace(path)


def read_all(path: Path) -> dict[str, list[list[str]]]:
    """Backend to (variant, case) pairs; a file that cannot be read counts as none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return dict(data["failed"]) if data["schema_version"] == VERSION else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
