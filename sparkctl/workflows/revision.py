"""Another git revision of the project as a folder of its own, to be built through the shared cache.

The tree lies under `<build folder>/revisions/<commit>/`, is exported once and kept. Nothing of the user's clone is
touched: no worktree, no index, no branch.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkctl.build import default_build_root
from sparkctl.build.layout import REVISIONS
from sparkctl.errors import MissingTool, UsageError, WorkFailed
from sparkctl.registry import Registry, load_registry
from sparkctl.toolchain import ToolResult, run_tool

_TIMEOUT_S = 120
_SAFE: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # from Python 3.11.4 on


@dataclass(frozen=True, slots=True)
class Revision:
    """`name` as it was given, `commit` in full, the registry of its exported tree and where that is built."""

    name: str
    commit: str
    registry: Registry
    build_root: Path

    @property
    def label(self) -> str:
        """`HEAD~1 (0123456789ab)`."""
        short = self.commit[:12]
        return short if self.name.startswith(short) else f"{self.name} ({short})"


def open_revision(registry: Registry, name: str, environ: Mapping[str, str]) -> Revision:
    """Export the revision if it is not there yet.

    UsageError for what is no revision, for a folder without history, and for a flags.yaml of then that cannot be read.
    """
    commit = find_commit(registry.root, name)
    tree = default_build_root(registry, environ) / REVISIONS / commit
    if not tree.is_dir():
        _export(registry.root, commit, tree)
    try:
        found = load_registry(tree / registry.path.name)
    except UsageError as error:
        what = f"{name} ({commit[:12]}): {error.message.replace(str(tree) + os.sep, '')}"
        raise UsageError(what, hint="an older flags.yaml may have another grammar: name a later revision") from error
    return Revision(name, commit, found, tree / "build")


def find_commit(root: Path, name: str) -> str:
    """The full commit that `name` stands for in the repository around `root`."""
    if not name or name.startswith("-"):
        raise UsageError(f"--vs {name}: not a revision", hint="a commit, branch or tag: --vs HEAD~1")
    if _git(root, "rev-parse", "--git-dir").returncode != 0:
        raise UsageError(f"--vs {name}: {root} is in no git repository", hint="clone the project, or --vs a saved name")
    found = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if found.returncode != 0:
        raise UsageError(f"--vs {name}: no such revision or saved report", hint="git log --oneline names revisions")
    return found.stdout.strip()


def _stays_inside(member: tarfile.TarInfo) -> bool:
    """Not for a link out of the tree, which would lead to files that are no part of the revision."""
    if not member.issym():
        return True
    target = posixpath.normpath(posixpath.join(posixpath.dirname(member.name), member.linkname))
    return not posixpath.isabs(target) and target.split("/")[0] != ".."


def _git(root: Path, *words: str) -> ToolResult:
    try:
        return run_tool(["git", "-C", str(root), *words], check=False, timeout=_TIMEOUT_S)
    except MissingTool as error:
        raise MissingTool("no git on PATH", hint="install git, or --vs a saved name") from error


def _export(root: Path, commit: str, tree: Path) -> None:
    """Whole or not at all: the tree appears under its name when it is complete."""
    top = Path(_git(root, "rev-parse", "--show-toplevel").stdout.strip() or root)  # archive narrows to where it runs
    prefix = _git(root, "rev-parse", "--show-prefix").stdout.strip()
    draft = tree.with_name(f".{tree.name}.{os.getpid()}.tmp")
    archive = draft.with_suffix(".tar")
    try:
        draft.mkdir(parents=True, exist_ok=True)
        done = _git(top, "archive", "--format=tar", f"--output={archive}", f"{commit}:{prefix}")
        if done.returncode != 0:
            raise UsageError(
                f"{commit[:12]} has no folder {prefix.rstrip('/') or '.'}: {done.stderr.strip()}",
                hint="the project was elsewhere then: name a later revision",
            )
        with tarfile.open(archive) as stream:
            stream.extractall(draft, members=filter(_stays_inside, stream), **_SAFE)
        with contextlib.suppress(FileExistsError, OSError):
            draft.rename(tree)
        if not tree.is_dir():
            raise WorkFailed(f"{tree}: cannot be made", hint="sparkctl needs to write into its build folder")
    except (OSError, tarfile.TarError) as error:
        raise WorkFailed(f"{tree}: {error}", hint="is the disk full, or the build folder read-only?") from error
    finally:
        archive.unlink(missing_ok=True)
        shutil.rmtree(draft, ignore_errors=True)
