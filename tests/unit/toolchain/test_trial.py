"""What the trial of a remote storage tells of it, from logs that ccache 4.14 wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkctl.toolchain.trial import _remote_fault

HEAD = "[2026-01-31T12:00:00.000000 4711] "


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (
            (
                "Redis command failed: WRONGPASS invalid username-password pair or user is disabled.",
                "Failed to construct backend for redis://********@cache.example.org",
            ),
            "WRONGPASS invalid username-password pair or user is disabled.",
        ),
        (
            ("Failed to construct backend for redis://cache.example.org: Redis connection error: Connection refused",),
            "Connection refused",
        ),
        (
            ("Failed to get /56/98 from http storage: Could not establish connection (2)",),
            "Could not establish connection (2)",
        ),
        (("Something else",), "for an unknown reason"),
    ],
)
def test_the_reason_is_found_and_the_host_is_not(tmp_path: Path, lines: tuple[str, ...], fault: str) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"{HEAD}{line}\n" for line in (*lines, "Marking remote storage backend for x as failed")))
    assert _remote_fault(log) == fault


def test_a_storage_that_answers_has_no_fault(tmp_path: Path) -> None:
    assert _remote_fault(tmp_path / "none") is None
    (tmp_path / "log").write_text(f"{HEAD}Redis connection OK\n")
    assert _remote_fault(tmp_path / "log") is None
