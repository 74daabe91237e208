"""The compile cache as a whole: what ccache counted, how large it is, and what removes entries from it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sparkctl.errors import WorkFailed
from sparkctl.toolchain.ccache import cache_folder
from sparkctl.toolchain.process import run_tool

TIMEOUT_S = 600.0  # a large cache on a slow disk
_ENTRY = re.compile(r"[0-9a-v]{20,}[A-Z]?")
_KIB = 1024
# Counters that are not about single compiles, or that stand for the same compile once more.
_OTHER = frozenset(
    {
        *("cache_size_kibibyte", "files_in_cache", "max_cache_size_kibibyte", "max_files_in_cache"),
        *("stats_updated_timestamp", "stats_zeroed_timestamp", "cleanups_performed"),
        *("direct_cache_hit", "direct_cache_miss", "preprocessed_cache_hit", "preprocessed_cache_miss", "cache_miss"),
        *("compile_failed", "preprocessor_error", "recache", "called_for_link", "no_input_file", "disabled"),
    }
)


@dataclass(frozen=True, slots=True)
class CacheCounts:
    """What ccache counted since its counters were last zeroed; sizes in bytes, times in seconds since the epoch."""

    direct_hits: int
    preprocessed_hits: int
    misses: int
    failed: int  # compiles that ended in an error: never stored
    uncached: Mapping[str, int]  # ccache's own word for why it could not cache -> how often
    remote_hits: int
    remote_misses: int
    remote_errors: int  # timeouts too
    entries: int
    size_bytes: int
    max_bytes: int | None  # None: no limit
    since: int | None  # None: since the cache was made

    @property
    def hits(self) -> int:
        """Compiles that did not have to run."""
        return self.direct_hits + self.preprocessed_hits


def parse_counts(text: str) -> CacheCounts:
    """Read `ccache --print-stats --format json`. Raises WorkFailed for what is not that."""
    try:
        data = {str(name): int(value) for name, value in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise WorkFailed(f"ccache's statistics cannot be read: {text[:80]!r}") from error
    count = {name: value for name, value in data.items() if value}
    return CacheCounts(
        direct_hits=count.get("direct_cache_hit", 0),
        preprocessed_hits=count.get("preprocessed_cache_hit", 0),
        misses=count.get("cache_miss", 0),
        failed=count.get("compile_failed", 0) + count.get("preprocessor_error", 0),
        uncached={name: n for name, n in sorted(count.items()) if name not in _OTHER and "_storage_" not in name},
        remote_hits=count.get("remote_storage_hit", 0),
        remote_misses=count.get("remote_storage_miss", 0),
        remote_errors=count.get("remote_storage_error", 0) + count.get("remote_storage_timeout", 0),
        entries=count.get("files_in_cache", 0),
        size_bytes=count.get("cache_size_kibibyte", 0) * _KIB,
        max_bytes=count["max_cache_size_kibibyte"] * _KIB if "max_cache_size_kibibyte" in count else None,
        since=count.get("stats_zeroed_timestamp"),
    )


def read_counts(program: Path, environ: Mapping[str, str]) -> CacheCounts:
    """Of the cache that builds in this environment use."""
    return parse_counts(_ccache(program, environ, "--print-stats", "--format", "json"))


def remote_storage(program: Path, environ: Mapping[str, str]) -> str | None:
    """Where entries are shared over a network, from the environment or ccache's configuration; None: nowhere."""
    return _ccache(program, environ, "--get-config", "remote_storage").strip() or None


def clear_cache(program: Path, environ: Mapping[str, str]) -> None:
    """Remove every local entry and zero the counters. The configuration stays."""
    _ccache(program, environ, "--clear")
    _ccache(program, environ, "--zero-stats")


def evict_older_than(program: Path, environ: Mapping[str, str], seconds: int) -> None:
    """Remove entries that nothing used for so long."""
    _ccache(program, environ, "--evict-older-than", f"{seconds}s")


def trim_cache(program: Path, environ: Mapping[str, str], max_bytes: int | None) -> None:
    """Remove the entries used longest ago until the cache fits; None: into its configured limit."""
    limit = {} if max_bytes is None else {"CCACHE_MAXSIZE": f"{max(1, max_bytes // _KIB)}KiB"}
    _ccache(program, {**environ, **limit}, "--cleanup")


def find_entries(folder: Path) -> tuple[Path, ...]:
    """Every local entry's file; none where there is no cache yet."""
    return tuple(sorted(_walk(folder)))


def inspect_entry(program: Path, entry: Path) -> str | None:
    """What is wrong with an entry (its checksum is compared), or None. One that has gone meanwhile is not wrong."""
    done = run_tool([program, "--inspect", entry], timeout=60, check=False)
    if done.returncode == 0 or not entry.exists():
        return None
    lines = done.stderr.strip().splitlines()
    return lines[-1].removeprefix("ccache: error: ") if lines else f"exit code {done.returncode}"


def _walk(folder: Path) -> Iterator[Path]:
    """ccache names folders with one character of the key each."""
    for path, names, files in os.walk(folder):
        names[:] = [name for name in names if len(name) == 1]
        yield from (Path(path) / name for name in files if _ENTRY.fullmatch(name))


def _ccache(program: Path, environ: Mapping[str, str], *words: str) -> str:
    settings = {**environ, "CCACHE_DIR": str(cache_folder(environ))}
    try:
        return run_tool([program, *words], env=settings, timeout=TIMEOUT_S).stdout
    except WorkFailed as error:
        raise WorkFailed(error.message, hint="sparkctl doctor says what is wrong with the cache") from error
