"""What ccache counted, and sizes and ages as people write them."""

from __future__ import annotations

import json

import pytest

from sparkctl.errors import UsageError, WorkFailed
from sparkctl.render.sizes import format_bytes, parse_age, parse_bytes
from sparkctl.toolchain import hide_password
from sparkctl.toolchain.ccache_store import parse_counts

COUNTED = {
    "direct_cache_hit": 3,
    "preprocessed_cache_hit": 1,
    "cache_miss": 2,
    "direct_cache_miss": 3,
    "compile_failed": 1,
    "preprocessor_error": 1,
    "unsupported_compiler_option": 2,
    "local_storage_hit": 4,
    "remote_storage_error": 1,
    "remote_storage_timeout": 1,
    "remote_storage_hit": 5,
    "files_in_cache": 6,
    "cache_size_kibibyte": 10,
    "max_cache_size_kibibyte": 0,
    "bad_output_file": 0,
}


def test_counters_are_read_and_uncached_compiles_keep_their_reason() -> None:
    counts = parse_counts(json.dumps(COUNTED))
    assert (counts.hits, counts.misses, counts.failed) == (4, 2, 2)
    assert counts.uncached == {"unsupported_compiler_option": 2}
    assert (counts.remote_hits, counts.remote_errors) == (5, 2)
    assert (counts.entries, counts.size_bytes, counts.max_bytes, counts.since) == (6, 10240, None, None)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"cache_miss": "many"}'])
def test_text_that_is_no_statistics_is_an_error(text: str) -> None:
    with pytest.raises(WorkFailed, match="statistics cannot be read"):
        parse_counts(text)


def test_sizes_and_ages() -> None:
    assert [format_bytes(n) for n in (0, 1023, 1536, 200 << 20, 3 << 30)] == [
        *("0 B", "1023 B", "1.5 KiB", "200 MiB", "3.0 GiB")
    ]
    assert [parse_bytes(text) for text in ("500M", "1.5 GiB", "2k", "7B")] == [500 << 20, 3 << 29, 2048, 7]
    assert [parse_age(text) for text in ("30d", "2 h", "1w")] == [2592000, 7200, 604800]
    for text in ("", "5", "1X", "-1G", "1e3M"):
        with pytest.raises(UsageError):
            parse_bytes(text)
    for text in ("", "5", "1y", "1.5d"):
        with pytest.raises(UsageError):
            parse_age(text)


def test_a_password_is_left_out() -> None:
    assert hide_password("redis://a:b@host:1/0") == "redis://host:1/0"
    assert hide_password("http://host/a@b") == "http://host/a@b"
