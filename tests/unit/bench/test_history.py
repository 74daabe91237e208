"""The history: recorded whole or not at all, and never in the way of a run."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from sparkctl.bench import history
from sparkctl.bench.history import history_path, read_history, record_run
from sparkctl.bench.record import run_record
from sparkctl.bench.results import Run, Sample, Stamp
from sparkctl.bench.saved import load_run, parse_run
from sparkctl.errors import UsageError, WorkFailed
from sparkctl.render.bench_history import change_text, group_entries, history_cells, sparkline

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "benchmarks/results/h200"


def taken(day: int, factor: float = 1.0, name: str = "decode") -> Run:
    """A committed run as if taken on a day of December, `factor` times slower."""
    run = load_run(RESULTS / f"{name}.json")
    rows = tuple(
        replace(
            row,
            series=replace(row.series, samples=tuple(Sample(s.time_us * factor) for s in row.series.samples)),
        )
        for row in run.rows
    )
    environment = replace(run.environment, stamp=Stamp(f"{day:012x}", day % 2 == 1))
    return replace(run, started=f"2026-12-{day:02d}T10:00:00+00:00", rows=rows, environment=environment)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "bench.sqlite3"


def test_every_row_of_every_run_is_read_back_oldest_first(path: Path) -> None:
    for day, factor in ((3, 1.1), (1, 1.0), (2, 0.9)):
        assert record_run(path, taken(day, factor)) is None
    entries = read_history(path, "attn_decode_split_kv_mma")
    assert [entry.started[8:10] for entry in entries] == ["01"] * 4 + ["02"] * 4 + ["03"] * 4
    first, row = entries[0], taken(1).rows[0]
    assert (first.line.gpu, first.line.variant, first.line.label) == ("NVIDIA H200", row.variant, row.case.label)
    assert (first.commit, first.dirty, first.num_splits) == ("000000000001", True, row.num_splits)
    assert (first.time_us, first.samples, first.tbps) == (row.series.median_us, 20, row.tbps)
    assert first.low_us == row.series.interval_us.low
    assert first.repeat is not None
    assert first.repeat.startswith("sparkctl bench --seq 4k --batch 1 ")
    groups = group_entries(entries)
    assert [len(own) for own in groups.values()] == [3] * 4


def test_the_whole_record_is_kept(path: Path) -> None:
    run = taken(1)
    record_run(path, run)
    blob = sqlite3.connect(path).execute("SELECT record FROM runs").fetchone()[0]
    assert run_record(parse_run(json.loads(zlib.decompress(blob)))) == json.loads(json.dumps(run_record(run)))


def test_it_is_a_wal_with_a_version(path: Path) -> None:
    record_run(path, taken(1))
    database = sqlite3.connect(path)
    assert database.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert database.execute("PRAGMA user_version").fetchone()[0] == 1


def test_a_kernel_is_a_name_a_glob_or_a_variant_and_an_unknown_one_lists_those_there_are(path: Path) -> None:
    record_run(path, taken(1))
    record_run(path, taken(2, name="ab_fapipe"))
    assert len(read_history(path, "*")) == 12
    assert len(read_history(path, "fa_split_gqa")) == 8
    assert {entry.line.arm for entry in read_history(path, "fa_split_gqa.bf16.d128.s1")} == {"FAPIPE=0"}
    with pytest.raises(UsageError) as caught:
        read_history(path, "fa_split_gq")
    assert caught.value.message == "no run of 'fa_split_gq' in the history"
    assert caught.value.hint == "did you mean 'fa_split_gqa'?\nrecorded: attn_decode_split_kv_mma, fa_split_gqa"


def test_without_a_database_it_says_that_nothing_was_recorded_and_makes_none(path: Path) -> None:
    with pytest.raises(UsageError, match="no run was recorded yet"):
        read_history(path, "*")
    assert not path.parent.exists()


def test_a_lock_that_is_held_costs_two_seconds_and_a_warning(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record_run(path, taken(1))
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    monkeypatch.setattr(history, "LOCK_WAIT_S", 0.3)
    began = time.monotonic()
    assert record_run(path, taken(2)) == f"{path}: database is locked"
    assert 0.2 < time.monotonic() - began < 3
    assert len(read_history(path, "*")) == 4  # readers of a WAL do not wait
    holder.execute("ROLLBACK")
    assert record_run(path, taken(2)) is None
    assert len(read_history(path, "*")) == 8


@pytest.mark.parametrize(
    "content", [b"not a database at all, but long enough to have a header" * 40, b"SQLite format 3\0"]
)
def test_a_broken_database_is_a_warning_for_a_run_and_an_error_for_a_reader(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    problem = record_run(path, taken(1))
    assert problem is not None
    assert problem.startswith(f"{path}: ")
    assert path.read_bytes() == content
    with pytest.raises(WorkFailed, match="not a database") as caught:
        read_history(path, "*")
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("move the file away")


def test_pages_torn_out_of_the_middle_are_a_warning_too(path: Path) -> None:
    for day in range(1, 9):
        record_run(path, taken(day))
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xa5" * (len(whole) - 4096))
    problem = record_run(path, taken(9))
    assert problem is not None
    assert "malformed" in problem


def test_a_database_of_a_newer_version_is_left_alone(path: Path) -> None:
    record_run(path, taken(1))
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 7")
    assert record_run(path, taken(2)) == f"{path}: a newer sparkctl wrote it"
    with pytest.raises(WorkFailed, match="a newer sparkctl wrote it"):
        read_history(path, "*")


def test_a_folder_that_cannot_be_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert record_run(tmp_path / "file" / "bench.sqlite3", taken(1)) is not None
    assert record_run(Path("/proc/sparkctl/bench.sqlite3"), taken(1)) is not None
    (tmp_path / "bench.sqlite3").mkdir()
    assert "unable to open database file" in (record_run(tmp_path / "bench.sqlite3", taken(1)) or "")


def test_a_database_that_cannot_be_written_is_a_warning_and_is_still_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read-only as SQLite sees it: file modes bind nobody who runs as root."""
    record_run(path, taken(1))
    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda where, **rest: real(where.replace("mode=rwc", "mode=ro"), **rest))
    assert record_run(path, taken(2)) == f"{path}: attempt to write a readonly database"
    monkeypatch.undo()
    assert len(read_history(path, "*")) == 4


WRITER = """
import sys
from pathlib import Path
from sparkctl.bench.history import record_run
from sparkctl.bench.saved import load_run
run = load_run(Path(sys.argv[2]))
print([record_run(Path(sys.argv[1]), run) for _ in range(10)].count(None))
"""


def test_processes_that_write_at_once_lose_nothing(path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(path), str(RESULTS / "decode.json")]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) for _ in range(3)]
    assert [writer.communicate(timeout=120)[0].strip() for writer in writers] == ["10"] * 3
    assert len(read_history(path, "*")) == 3 * 10 * 4


def test_where_the_history_lies(tmp_path: Path) -> None:
    assert history_path({"XDG_DATA_HOME": "/x"}) == Path("/x/sparkctl/bench.sqlite3")
    assert history_path({"XDG_DATA_HOME": "/x", "SPARKCTL_DATA_DIR": "/y"}) == Path("/y/bench.sqlite3")
    assert history_path({}).name == "bench.sqlite3"


def test_a_sparkline_is_flat_where_times_differ_by_noise_alone() -> None:
    assert sparkline([100.0, 100.0]) == "▁▁"
    assert sparkline([100.0, 100.1, 100.05]) == "▁▁▁"
    assert sparkline([100.0, 150.0, 200.0]) == "▁▅█"
    assert sparkline([100.0, 150.0, 200.0], plain=True) == "_=#"


def test_a_change_inside_both_intervals_is_in_brackets(path: Path) -> None:
    for day, factor in ((1, 1.0), (2, 1.0005), (3, 0.9)):
        record_run(path, taken(day, factor))
    own = next(iter(group_entries(read_history(path, "*")).values()))
    assert change_text(own[1], own[0]) == "(+0.0 %)"
    assert change_text(own[2], own[1]) == "−10.0 %"
    cells = history_cells(own, 2)
    assert [line[-1] for line in cells[1:]] == ["(+0.0 %)", "−10.0 %"]
    assert [line[1] for line in cells[1:]] == ["000000000002", "000000000003*"]
