"""Every run of this user, in SQLite: written so that nothing about the database can cost a run its result."""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from sparkctl.bench.record import SCHEMA_VERSION, run_record
from sparkctl.bench.repeat import repeat_command
from sparkctl.bench.results import Row, Run
from sparkctl.errors import UsageError, WorkFailed
from sparkctl.registry.suggest import did_you_mean

HISTORY_NAME = "bench.sqlite3"
HISTORY_VERSION = 1  # PRAGMA user_version
LOCK_WAIT_S = 2.0  # another process writes for milliseconds

_TABLES = """
CREATE TABLE IF NOT EXISTS runs (
    id INTEGER PRIMARY KEY, started TEXT NOT NULL, gpu TEXT NOT NULL, driver TEXT, revision TEXT, dirty INTEGER,
    command TEXT NOT NULL, record BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS rows (
    run INTEGER NOT NULL REFERENCES runs (id), kernel TEXT NOT NULL, variant TEXT NOT NULL, arm TEXT NOT NULL,
    label TEXT NOT NULL, num_splits INTEGER NOT NULL, time_us REAL NOT NULL, low_us REAL NOT NULL,
    high_us REAL NOT NULL, noise REAL NOT NULL, samples INTEGER NOT NULL, throttled INTEGER NOT NULL,
    tbps REAL NOT NULL, ceiling_tbps REAL NOT NULL, repeat TEXT
);
CREATE INDEX IF NOT EXISTS rows_of_kernel ON rows (kernel);
"""
_SELECT = """
SELECT gpu, rows.variant, arm, label, started, driver, revision, dirty, kernel, num_splits, time_us, low_us, high_us,
       noise, samples, throttled, tbps, ceiling_tbps, repeat
FROM rows JOIN runs ON runs.id = rows.run ORDER BY started, runs.id, rows.rowid
"""


@dataclass(frozen=True, slots=True, order=True)
class Line:
    """What is compared over time: one variant on one case of one GPU."""

    gpu: str
    variant: str
    arm: str  # empty but for --ab
    label: str  # of the case

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.variant, self.arm, self.label)))


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of one run."""

    line: Line
    started: str
    driver: str | None
    commit: str | None
    dirty: bool | None
    kernel: str
    num_splits: int
    time_us: float
    low_us: float
    high_us: float
    noise: float
    samples: int
    throttled: int
    tbps: float
    ceiling_tbps: float
    repeat: str | None


def history_path(environ: Mapping[str, str]) -> Path:
    """In `SPARKCTL_DATA_DIR`, else in the user's data folder."""
    if chosen := environ.get("SPARKCTL_DATA_DIR"):
        return Path(chosen).expanduser().absolute() / HISTORY_NAME
    if os.name == "posix" and (base := environ.get("XDG_DATA_HOME")):
        return Path(base).expanduser().absolute() / "sparkctl" / HISTORY_NAME
    import platformdirs

    return platformdirs.user_data_path("sparkctl", appauthor=False) / HISTORY_NAME


def record_run(path: Path, run: Run) -> str | None:
    """Adds the run, whole or not at all; what kept it from that, None when nothing did. Never raises, never hangs."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _connected(f"{path.as_uri()}?mode=rwc") as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("BEGIN IMMEDIATE")
            version = _version(database)
            if version > HISTORY_VERSION:
                return f"{path}: a newer sparkctl wrote it"
            if version == 0:
                for statement in _TABLES.split(";"):
                    database.execute(statement)
                database.execute(f"PRAGMA user_version = {HISTORY_VERSION}")
            _insert(database, run)
            database.execute("COMMIT")
    except (sqlite3.Error, OSError, ValueError) as error:
        return f"{path}: {_reason(error)}"
    return None


def _insert(database: sqlite3.Connection, run: Run) -> None:
    env = run.environment
    record = json.dumps({"schema_version": SCHEMA_VERSION, **run_record(run)}, ensure_ascii=False)
    values = (run.started, env.gpu, env.driver, env.stamp.commit, env.stamp.dirty, run.command)
    found = database.execute(
        "INSERT INTO runs (started, gpu, driver, revision, dirty, command, record) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*values, zlib.compress(record.encode())),
    )
    rows = [(found.lastrowid, *_row_values(row, run)) for row in run.rows]
    database.executemany(f"INSERT INTO rows VALUES ({', '.join('?' * 15)})", rows)


def _row_values(row: Row, run: Run) -> tuple[object, ...]:
    series, interval = row.series, row.series.interval_us
    return (
        *(row.kernel, row.variant, row.arm, row.case.label, row.num_splits),
        *(series.median_us, interval.low, interval.high, series.noise, len(series.samples), series.throttled),
        *(row.tbps, row.ceiling.tbps, repeat_command(row, run)),
    )


def read_history(path: Path, pattern: str) -> list[Entry]:
    """Rows of the kernels or variants that the name or glob means, oldest first.

    UsageError where there is none; WorkFailed for a database that cannot be read.
    """
    if not path.is_file():
        raise UsageError(f"no run was recorded yet: there is no {path}", hint="every run of sparkctl bench is recorded")
    try:
        entries = _read(path)
    except (sqlite3.Error, OSError) as error:
        raise WorkFailed(
            f"{path}: {_reason(error)}", hint="move the file away; the next run of sparkctl bench starts a new one"
        ) from error
    found = [entry for entry in entries if _means(pattern, entry)]
    if not found:
        kernels = list(dict.fromkeys(entry.kernel for entry in entries))
        near = did_you_mean(pattern, kernels) or ""
        listed = "recorded: " + ", ".join(kernels) if kernels else "no run is recorded"
        hint = f"{near}\n{listed}" if near.startswith("did you mean") else listed
        raise UsageError(f"no run of '{pattern}' in the history", hint=hint)
    return found


def _means(pattern: str, entry: Entry) -> bool:
    return fnmatchcase(entry.kernel, pattern) or fnmatchcase(entry.line.variant, pattern)


def _read(path: Path) -> list[Entry]:
    uri = path.absolute().as_uri()
    try:
        return _select(f"{uri}?mode=ro")
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise
        return _select(f"{uri}?immutable=1")  # in a folder that cannot be written WAL has no shared memory


def _select(uri: str) -> list[Entry]:
    with _connected(uri) as database:
        if _version(database) > HISTORY_VERSION:
            raise sqlite3.DatabaseError("a newer sparkctl wrote it")
        return [_entry(*values) for values in database.execute(_SELECT)]


def _entry(gpu: str, variant: str, arm: str, label: str, started: str, *rest: object) -> Entry:
    driver, commit, dirty, *numbers = rest
    return Entry(
        Line(gpu, variant, arm, label),
        started,
        driver,  # type: ignore[arg-type]
        commit,  # type: ignore[arg-type]
        None if dirty is None else bool(dirty),
        *numbers,  # type: ignore[arg-type]
    )


@contextmanager
def _connected(uri: str) -> Iterator[sqlite3.Connection]:
    """Without a transaction of Python's own; closing one that is open undoes it."""
    with closing(sqlite3.connect(uri, uri=True, timeout=LOCK_WAIT_S, isolation_level=None)) as database:
        yield database


def _version(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
