"""What went wrong with the cache while compilers ran, from what ccache logged for each edge. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from sparkctl.toolchain.ccache import hide_password

_REMOTE = {"remote_storage_error", "remote_storage_timeout"}
HITS = frozenset({"direct_cache_hit", "preprocessed_cache_hit"})


def parse_stats_log(text: str) -> frozenset[str]:
    """The counters that one edge raised; the log's first line names the source."""
    return frozenset(line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#"))


def cache_faults(edges: Iterable[frozenset[str]], *, folder: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    """One line for each kind of fault: what it is, what it cost, what helps. `edges`: the counters of each.

    A result that was found and had to be compiled all the same was damaged. One that was compiled and not written had
    no room. Where nothing is to be written (read-only, remote only, no cache) that is no fault.
    """
    counters = list(edges)
    damaged = sum("cache_miss" in found and "local_storage_hit" in found for found in counters)
    unwritten = sum("cache_miss" in found and "local_storage_write" not in found for found in counters)
    remote = sum(bool(found & _REMOTE) for found in counters)
    lines = []
    if damaged:
        lines.append(
            f"damaged entries in the cache {folder}: {_count(damaged)} compiled again; "
            "sparkctl cache verify finds the others"
        )
    if unwritten and not any(environ.get(name) for name in ("CCACHE_READONLY", "CCACHE_REMOTE_ONLY", "CCACHE_DISABLE")):
        lines.append(
            f"{_count(unwritten)} compiled and not added to the cache {folder}, which cannot be written any more; "
            "free some space there (sparkctl cache prune), or name another folder in CCACHE_DIR"
        )
    if remote:
        where = hide_password(environ.get("CCACHE_REMOTE_STORAGE", "")) or "of ccache.conf"
        lines.append(
            f"the remote storage {where} failed for {_count(remote)}, the local cache went on alone; "
            "start or correct it (sparkctl doctor says why), or unset CCACHE_REMOTE_STORAGE"
        )
    return tuple(lines)


def _count(edges: int) -> str:
    return "1 edge" if edges == 1 else f"{edges} edges"
