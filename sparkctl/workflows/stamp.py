"""Which revision of the project is at work: from git, else from a stamp file where there is no history."""

from __future__ import annotations

import json
from pathlib import Path

from sparkctl.bench.results import Stamp
from sparkctl.errors import SparkctlError
from sparkctl.toolchain import run_tool

STAMP_FILE = ".sparkctl-stamp.json"  # {"commit": "0123456789ab", "dirty": false}
# What a kernel and its measurement are made of: an edited note or a new result does not make a number doubtful.
SOURCES = ("csrc", "sparkctl", "flags.yaml", "pyproject.toml")
_TIMEOUT_S = 20


def read_stamp(root: Path) -> Stamp:
    """The commit (12 digits) and whether any source differs from it; both None where nothing tells."""
    return _from_git(root) or _from_file(root / STAMP_FILE) or Stamp(None, None)


def write_stamp(root: Path) -> Path:
    """Keep the revision in the stamp file, for a machine that gets the tree without its history."""
    stamp = _from_git(root)
    if stamp is None:
        raise SparkctlError(f"{root}: git tells no revision", hint="run it inside a clone with at least one commit")
    path = root / STAMP_FILE
    path.write_text(json.dumps({"commit": stamp.commit, "dirty": bool(stamp.dirty)}) + "\n", encoding="utf-8")
    return path


def _from_git(root: Path) -> Stamp | None:
    try:
        head = run_tool(["git", "-C", str(root), "rev-parse", "--short=12", "HEAD"], check=False, timeout=_TIMEOUT_S)
        if head.returncode != 0:
            return None
        status = ["git", "-C", str(root), "status", "--porcelain", "--", *SOURCES]
        changed = run_tool(status, check=False, timeout=_TIMEOUT_S)
    except SparkctlError:  # no git, or one that hangs
        return None
    dirty = bool(changed.stdout.strip()) if changed.returncode == 0 else None
    return Stamp(head.stdout.strip(), dirty)


def _from_file(path: Path) -> Stamp | None:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return Stamp(str(data["commit"]), bool(data["dirty"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
