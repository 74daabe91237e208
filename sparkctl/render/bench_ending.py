"""How a run ended, where it did not end with every row: failed rows, Ctrl-C, a lost device."""

from __future__ import annotations

from sparkctl.bench.results import Run


def ending_notes(run: Run) -> list[str]:
    """Rows that there are not and why, one line each, then what cut the run short."""
    so_far = f"{len(run.rows)} of {run.planned} rows were measured"
    notes = [f"no result: {failure}" for failure in run.failures]
    notes += [f"interrupted: {so_far}"] if run.interrupted else []
    notes += [f"ended early, the device was lost: {so_far}"] if run.lost is not None else []
    return notes
