"""What Markdown and CSV say of each row besides its numbers: where it was measured, and the command that repeats it."""

from __future__ import annotations

from typing import Any

from sparkctl.bench.repeat import repeat_command
from sparkctl.bench.results import Row, Run

CSV_RUN = (
    "gpu",
    "arch",
    "driver",
    "cuda",
    "torch",
    "compiler",
    "profile",
    "flags",
    "sparkctl",
    "commit",
    "dirty",
    "sm_mhz_low",
    "sm_mhz_high",
    "started",
    "repeat",
)


def csv_run_values(row: Row, run: Run) -> list[Any]:
    """The values of CSV_RUN; an empty field is not known."""
    env, clocks = run.environment, run.clocks_mhz or ("", "")
    flags = " ".join(f"{name}={value}" for name, value in env.flags)
    values: list[Any] = [
        env.gpu,
        env.arch,
        env.driver,
        env.cuda,
        env.torch,
        env.compiler,
        env.profile,
        flags,
        env.sparkctl,
    ]
    dirty = None if env.stamp.dirty is None else int(env.stamp.dirty)
    values = [*values, env.stamp.commit, dirty, *clocks, run.started, repeat_command(row, run)]
    return ["" if value is None else value for value in values]


def repeat_lines(run: Run) -> list[str]:
    """Markdown below the table: each row's command, the same one once; nothing where the run has one row."""
    commands = dict.fromkeys(filter(None, (repeat_command(row, run) for row in run.rows)))
    if len(commands) < 2:
        return []
    return ["", "One row each:", "", "```sh", *commands, "```"]
