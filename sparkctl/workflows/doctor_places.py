"""doctor: the project, its build folder and lock, room on disks, and memory for compilers."""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from sparkctl.build.history import load_history
from sparkctl.build.jobs import ASSUMED_PEAK_BYTES, MEMORY_SHARE, plan_jobs
from sparkctl.build.layout import lock_folders
from sparkctl.build.limits import MachineLimits, read_limits
from sparkctl.build.locks import OWNER_NAME, find_holders, is_locked, read_owner
from sparkctl.errors import SparkctlError
from sparkctl.registry import find_project, load_registry
from sparkctl.runtime.locate import BUILD_DIR_VARIABLE, build_root_of
from sparkctl.toolchain import cache_folder, user_cache_folder
from sparkctl.workflows.finding import Finding, found

NEEDED_BYTES = 100 << 20  # one library with its objects and what compilers write under way
WANTED_BYTES = 1 << 30
_PROBE_BYTES = 1 << 20
_GIB = 1 << 30
NO_SPACE = "no space left"
_FOLDER = "SPARKCTL_CACHE_DIR"


def look_at_places(project: Path | None, environ: Mapping[str, str]) -> Iterator[Finding]:
    """`project` is what --project named."""
    try:
        root = find_project(project)
    except SparkctlError as error:
        yield Finding("project", "error", error.message, fix=error.hint)
        return
    yield from found("project", lambda: _look_at_project(root))
    build = build_root_of(root, environ)
    yield from found("build folder", lambda: _look_at_build_folder(build, environ))
    yield from found("lock", lambda: _look_at_locks(build), state="warning")
    yield from found("caches", lambda: _look_at_caches(environ), state="warning")
    yield from found("temporary", _look_at_temporary)
    yield from found("memory", lambda: _look_at_memory(environ, read_limits()))


def _look_at_project(root: Path) -> Iterator[Finding]:
    try:
        registry = load_registry(root)
    except SparkctlError as error:
        first = error.message.strip().splitlines()[0]
        yield Finding("project", "error", first, str(root), "sparkctl flags check lists everything that is wrong")
        return
    count = len(registry.kernels)
    yield Finding("project", "ok", "1 kernel" if count == 1 else f"{count} kernels", str(root))


def _look_at_build_folder(build: Path, environ: Mapping[str, str]) -> Iterator[Finding]:
    named = f"{build} ({BUILD_DIR_VARIABLE})" if environ.get(BUILD_DIR_VARIABLE) else str(build)
    fault, free = _try_writing(build)
    elsewhere = f"or name another folder in {BUILD_DIR_VARIABLE}"
    if fault:
        yield Finding("build folder", "error", fault, named, f"make it writable and free some space, {elsewhere}")
    elif free < NEEDED_BYTES:
        what = f"{_size(free)} free, a build needs {_size(NEEDED_BYTES)}"
        yield Finding("build folder", "error", what, named, f"free some space (sparkctl clean), {elsewhere}")
    elif free < WANTED_BYTES:
        fix = f"free some space (sparkctl clean, sparkctl cache prune), {elsewhere}"
        yield Finding("build folder", "warning", f"{_size(free)} free", named, fix)
    else:
        yield Finding("build folder", "ok", f"writable, {_size(free)} free", named)


def _look_at_locks(build: Path) -> Iterator[Finding]:
    """The locks of the build folder and of the trees that are built inside it; free ones are one line."""
    findings = [finding for folder in lock_folders(build) if (finding := _look_at_lock(folder))]
    yield from findings or [Finding("lock", "ok", "free", str(build / ".lock"))]


def _look_at_lock(folder: Path) -> Finding | None:
    """None for a lock that is free and was let go."""
    owner = read_owner(folder)
    where = str(folder)
    if is_locked(folder):
        if owner is None or not owner.is_gone:
            who = f"process {owner.pid}" if owner else "another process"
            return Finding("lock", "ok", f"held by {who}, which builds; another build waits for it", where)
        left = ", ".join(f"{name} ({pid})" for pid, name in find_holders(folder))
        what = f"process {owner.pid} was killed, and what it started still holds the lock: {left or 'unknown'}"
        numbers = " ".join(str(pid) for pid, _ in find_holders(folder))
        return Finding("lock", "warning", what, where, f"it ends by itself, or: kill {numbers}")
    if owner is None:
        return None
    if not owner.is_gone:
        what = f"free, though process {owner.pid} left its name and may still run, here or on another machine"
    else:
        what = f"free; process {owner.pid} was killed in a build and left its name"
    fix = f"nothing waits for it, the next build takes over; rm {folder / OWNER_NAME} ends this line"
    return Finding("lock", "warning", what, where, fix)


def _look_at_caches(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Room for what outlives a build folder: what compilers answered, times and peaks, compiles."""
    folder, compiles = user_cache_folder(environ), cache_folder(environ)
    fault, free = _try_writing(folder)
    room = "make it writable and free some space (sparkctl cache prune), or name another folder in"
    if fault:
        yield Finding("cache folder", "warning", f"{fault}; nothing is remembered", str(folder), f"{room} {_FOLDER}")
    elif free < NEEDED_BYTES:
        yield Finding("cache folder", "warning", f"{_size(free)} free", str(folder), f"{room} {_FOLDER}")
    else:
        yield Finding("cache folder", "ok", f"writable, {_size(free)} free", str(folder))
    if compiles.is_relative_to(folder):
        return
    fault, free = _try_writing(compiles)  # one that may only be read is the cache's own line
    if fault == NO_SPACE or (not fault and free < NEEDED_BYTES):
        yield Finding("cache room", "warning", fault or f"{_size(free)} free", str(compiles), f"{room} CCACHE_DIR")


def _look_at_temporary() -> Iterator[Finding]:
    try:
        folder = Path(tempfile.gettempdir())
    except FileNotFoundError:
        yield Finding("temporary", "error", "no folder for temporary files", fix="name a writable one in TMPDIR")
        return
    fault, free = _try_writing(folder)
    if fault or free < _PROBE_BYTES * 16:
        what = fault or f"{_size(free)} free"
        yield Finding("temporary", "error", what, str(folder), "free some space, or name another folder in TMPDIR")


def _look_at_memory(environ: Mapping[str, str], limits: MachineLimits) -> Iterator[Finding]:
    """How many compilers a build starts, and whether the heaviest one that is known fits."""
    known = {name: entry.peak_bytes for name, entry in load_history(environ).items() if entry.peak_bytes}
    peak = max(known.values(), default=ASSUMED_PEAK_BYTES)
    jobs = plan_jobs(list(known) or ["one"], known, limits)
    free = limits.free_memory_bytes
    text = (
        f"{jobs.count} compilers at once ({jobs.reason})" if jobs.count > 1 else f"1 compiler at once ({jobs.reason})"
    )
    text += f", {limits.cpus:g} cpus, heaviest compile {_size(peak)}{'' if known else ' (assumed)'}"
    text += f", {_size(free)} free" if free is not None else ""
    if free is not None and free * MEMORY_SHARE < peak:
        yield Finding("memory", "warning", text, fix="free some memory, or raise the container's limit")
    else:
        yield Finding("memory", "ok", text)


def _try_writing(folder: Path) -> tuple[str | None, int]:
    """What keeps a file from being written there (or where the folder would be made), and the free bytes."""
    existing = next((path for path in (folder, *folder.parents) if path.exists()), Path("/"))
    if not existing.is_dir():
        return f"{existing} is not a folder", 0
    free = shutil.disk_usage(existing).free
    try:
        with tempfile.TemporaryFile(dir=existing) as stream:
            stream.write(bytes(_PROBE_BYTES))
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        return (NO_SPACE if full else f"cannot be written: {error.strerror}"), free
    return None, free


def _size(size: int) -> str:
    return f"{size / _GIB:.1f} GiB" if size >= _GIB else f"{size / 2**20:.0f} MiB"
