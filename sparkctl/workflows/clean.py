"""Removes what builds made in a project's build folder. Never the cache, never what is not sparkctl's."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sparkctl.build.layout import (
    ARMS,
    DRAFT,
    OWN_FILES,
    RESULTS,
    REVISIONS,
    inner_trees,
    library_folders,
    result_files,
    variant_of,
)
from sparkctl.build.locks import LOCK_NAME, OWNER_NAME, hold_lock
from sparkctl.build.outputs import COMPILE_COMMANDS
from sparkctl.errors import SparkctlError, UsageError, WorkFailed
from sparkctl.registry import Registry, span_variants
from sparkctl.runtime.locate import build_root_of
from sparkctl.runtime.manifest import read_manifest

Kind = Literal["library", "arm", "revision", "support", "result", "vanished", "other"]
PARENTS = (ARMS, REVISIONS, *dict.fromkeys(pattern.partition("/")[0] for pattern in RESULTS))


@dataclass(frozen=True, slots=True)
class Item:
    """A file or folder, by its path below the build folder."""

    path: str
    kind: Kind
    size_bytes: int
    reason: str = ""  # why it stays


@dataclass(frozen=True, slots=True)
class CleanReport:
    """What went, or would go in a `dry_run`, and what stays."""

    root: Path
    removed: tuple[Item, ...]
    kept: tuple[Item, ...]
    failed: tuple[Item, ...]  # could not be removed
    dry_run: bool


def clean_outputs(
    project: Path, environ: Mapping[str, str], *, results: bool = False, sure: bool = False, dry_run: bool = False
) -> CleanReport:
    """Remove libraries, arms, exported revisions and leftovers; with `results` saved reports and verdicts too.

    WorkFailed while a build runs there; UsageError for a folder that another tree was built in last, unless `sure`.
    """
    root = build_root_of(project, environ)
    return _clean(root, project, list(_outputs(root, results)), sure=sure, dry_run=dry_run)


def clean_vanished(
    registry: Registry, environ: Mapping[str, str], *, sure: bool = False, dry_run: bool = False
) -> CleanReport:
    """Remove objects and code of variants, and libraries of profiles, that the registry no longer has.

    Raises as `clean_outputs`.
    """
    root = build_root_of(registry.root, environ)
    return _clean(root, registry.root, list(_vanished(root, registry)), sure=sure, dry_run=dry_run)


def _clean(root: Path, project: Path, chosen: list[Item], *, sure: bool, dry_run: bool) -> CleanReport:
    if not root.is_dir():
        return CleanReport(root, (), (), (), dry_run)
    if not sure:
        _refuse_other_trees(root, project)
    removable = tuple(item for item in chosen if not item.reason)
    kept = tuple(item for item in chosen if item.reason)
    if dry_run:
        return CleanReport(root, removable, kept, (), dry_run)
    removed: list[Item] = []
    failed: list[Item] = []
    try:
        with hold_lock(root, say=lambda _: None, wait=False):
            for item in removable:
                fault = _remove(root / item.path)
                (failed if fault else removed).append(_with_reason(item, fault or ""))
            for folder in (*root.glob("regs/*"), *(root / name for name in PARENTS)):
                _remove_empty(folder)
    except OSError as error:
        raise WorkFailed(f"{error.filename or root}: {error.strerror or error}", hint="mend its permissions") from error
    return CleanReport(root, tuple(removed), kept, tuple(failed), dry_run)


def _refuse_other_trees(root: Path, project: Path) -> None:
    """A build folder outside of the project may serve several trees: the last build left its name."""
    if root.resolve().is_relative_to(project.resolve()):
        return
    try:
        commands = json.loads((root / COMPILE_COMMANDS).read_text(encoding="utf-8"))
        builder = Path(commands[0]["directory"])
    except (OSError, ValueError, LookupError, TypeError):
        return
    if builder.resolve() != project.resolve():
        hint = f"sparkctl --project {builder} clean, or --yes removes it all the same"
        raise UsageError(f"{root} was last built from {builder}, not from {project}", hint=hint)


def _outputs(root: Path, results: bool) -> Iterator[Item]:
    """Everything in the folder but its lock, those that stay with a reason."""
    libraries = set(library_folders(root))
    for path in sorted(root.iterdir()) if root.is_dir() else ():
        if path in libraries:
            yield _item(root, path, "library")
        elif path.name in OWN_FILES or DRAFT.fullmatch(path.name):
            yield _item(root, path, "support")
        elif path.name not in (LOCK_NAME, OWNER_NAME, *PARENTS):
            yield Item(path.name, "other", 0, "not made by a build")
    for path in inner_trees(root):
        reason = "its process still runs" if DRAFT.fullmatch(path.name) and _is_written(path) else ""
        yield _item(root, path, "arm" if path.parent.name == ARMS else "revision", reason)
    for path in result_files(root):
        yield _item(root, path, "result", "" if results else "a result: --results removes it")


def _vanished(root: Path, registry: Registry) -> Iterator[Item]:
    names = {variant.name for kernel in registry.kernels.values() for variant in span_variants(kernel)}
    for library in library_folders(root):
        if _profile_of(library) not in {None, *registry.profiles}:
            yield _item(root, library, "vanished")
            continue
        for path in sorted(path for part in ("obj", "code") for path in (library / part).glob("*")):
            name = variant_of(path.name)
            if name and name not in names and not path.is_dir():
                yield _item(root, path, "vanished")


def _profile_of(library: Path) -> str | None:
    """From its manifest; None where there is none that can be read."""
    try:
        return read_manifest(library).profile
    except SparkctlError:
        return None


def _is_written(draft: Path) -> bool:
    """Revisions are exported without the lock."""
    return any(part.isdigit() and Path("/proc", part).exists() for part in draft.name.split("."))


def _item(root: Path, path: Path, kind: Kind, reason: str = "") -> Item:
    return Item(path.relative_to(root).as_posix(), kind, _size_of(path), reason)


def _with_reason(item: Item, reason: str) -> Item:
    return Item(item.path, item.kind, item.size_bytes, reason)


def _size_of(path: Path) -> int:
    """Of the files below it, as they lie on the disk; links are not followed."""
    total = _blocks(path)
    if path.is_dir() and not path.is_symlink():
        total += sum(_blocks(Path(folder, name)) for folder, _, files in os.walk(path) for name in files)
    return total


def _blocks(path: Path) -> int:
    try:
        return path.lstat().st_blocks * 512
    except OSError:
        return 0


def _remove(path: Path) -> str | None:
    """Why it could not be removed. A folder goes under another name first, so that none is ever half there."""
    try:
        with ExitStack() as locks:
            if path.is_symlink() or not path.is_dir():
                path.unlink(missing_ok=True)
                return None
            for inner in sorted(inner.parent for inner in path.rglob(LOCK_NAME)):
                locks.enter_context(hold_lock(inner, say=lambda _: None, wait=False))
            grave = path.with_name(f".removed-{path.name.removeprefix('.removed-')}")
            if grave != path:
                if grave.exists():
                    shutil.rmtree(grave)
                path.rename(grave)
            for lock in grave.rglob(LOCK_NAME):
                lock.unlink()  # who waits for it sees that it is gone
            shutil.rmtree(grave)
    except SparkctlError as error:
        return error.message
    except OSError as error:
        return f"{error.filename or path}: {error.strerror or error}"
    return None


def _remove_empty(folder: Path) -> None:
    if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
        folder.rmdir()
