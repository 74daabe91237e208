"""The table of docs/origin.md names only tests and files that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = (ROOT / "docs" / "origin.md").read_text(encoding="utf-8")
ROWS = [*(f"A{n}" for n in range(1, 11)), *(f"B{n}" for n in (*range(1, 6), *range(7, 27)))]


def defined_tests() -> set[str]:
    files = (ROOT / "tests").rglob("test_*.py")
    return {name for file in files for name in re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.M)}


def test_every_row_is_in_the_table_once() -> None:
    assert re.findall(r"^\| ([AB]\d+) \|", TABLE, re.M) == ROWS


def test_every_test_that_the_table_names_is_defined() -> None:
    named = set(re.findall(r"`(test_\w+)`", TABLE))
    assert named
    assert named - defined_tests() == set()


def test_every_file_that_the_table_names_is_there() -> None:
    named = set(re.findall(r"((?:tests|sparkctl|benchmarks)/[\w/.]+\.py)", TABLE))
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []
