"""A built file is known by size and time, and by content where these differ."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sparkctl.build import stamps
from sparkctl.build.stamps import StampCheck, take_stamp


@pytest.fixture
def built(tmp_path: Path) -> Path:
    path = tmp_path / "a.o"
    path.write_bytes(b"object")
    os.utime(path, ns=(1_000, 1_000))
    return path


def test_a_file_as_it_was_built_is_not_read(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stamp = take_stamp(built)
    monkeypatch.setattr(stamps, "hash_files", None)
    assert StampCheck(built.parent).explain("a.o", stamp) is None


@pytest.mark.parametrize("content", [b"", b"obj", b"OBJECT", b"object and more"])
def test_another_content_is_a_reason(built: Path, content: bytes) -> None:
    stamp = take_stamp(built)
    built.write_bytes(content)
    assert StampCheck(built.parent).explain("a.o", stamp) == "a.o was changed since it was built"


def test_the_same_content_is_none_and_gets_its_time_back(built: Path) -> None:
    stamp = take_stamp(built)
    built.write_bytes(b"object")
    check = StampCheck(built.parent)
    assert built.stat().st_mtime_ns != 1_000
    assert check.explain("a.o", stamp) is None
    check.restore_times()
    assert built.stat().st_mtime_ns == 1_000


def test_a_lost_file_and_a_folder_in_its_place_are_missing(built: Path) -> None:
    stamp = take_stamp(built)
    built.unlink()
    assert StampCheck(built.parent).explain("a.o", stamp) == "a.o is missing"
    built.mkdir()
    assert StampCheck(built.parent).explain("a.o", stamp) == "a.o is missing"


def test_a_file_without_stamp_is_not_trusted(built: Path) -> None:
    assert StampCheck(built.parent).explain("a.o", None) == "a.o was changed since it was built"
    assert take_stamp(built.parent / "none") is None
