"""What ccache's logs of single edges say about the cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkctl.build.cache_faults import cache_faults, parse_stats_log

HIT = "# a.cpp\ndirect_cache_hit\nlocal_storage_hit\nlocal_storage_read_hit\n"
MISS = "# a.cpp\ncache_miss\nlocal_storage_miss\nlocal_storage_write\n"
STALE = "# a.cpp\ncache_miss\nlocal_storage_miss\nlocal_storage_read_hit\nlocal_storage_write\n"  # a header changed
DAMAGED = "# a.cpp\ncache_miss\nlocal_storage_hit\nlocal_storage_miss\nlocal_storage_write\n"
FULL = "# a.cpp\ncache_miss\nlocal_storage_miss\nlocal_storage_read_miss\n"
REMOTE_DOWN = f"{MISS}remote_storage_error\n"


def faults(*logs: str, **environ: str) -> tuple[str, ...]:
    return cache_faults(map(parse_stats_log, logs), folder=Path("/cache"), environ=environ)


def test_hits_misses_and_edges_without_a_cache_are_no_fault() -> None:
    assert faults(HIT, MISS, STALE, "", "# a.cpp\ncompile_failed\n") == ()


@pytest.mark.parametrize("name", ["CCACHE_READONLY", "CCACHE_REMOTE_ONLY"])
def test_what_was_not_to_be_written_is_no_fault(name: str) -> None:
    assert faults(FULL, **{name: "1"}) == ()


@pytest.mark.parametrize(
    ("logs", "expected"),
    [
        ((DAMAGED, HIT), "damaged entries in the cache /cache: 1 edge compiled again; sparkctl cache verify finds the"),
        ((FULL, FULL), "2 edges compiled and not added to the cache /cache, which cannot be written any more; free"),
        ((REMOTE_DOWN,), "the remote storage of ccache.conf failed for 1 edge, the local cache went on alone; start"),
    ],
)
def test_each_fault_is_one_line_with_what_helps(logs: tuple[str, ...], expected: str) -> None:
    (line,) = faults(*logs)
    assert line.startswith(expected)


def test_the_remote_storage_is_named_without_its_password() -> None:
    (line,) = faults(REMOTE_DOWN, CCACHE_REMOTE_STORAGE="redis://me:secret@host:1")
    assert line.startswith("the remote storage redis://host:1 failed for 1 edge")
