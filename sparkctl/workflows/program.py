"""A program of one file around a user's own kernel: built with the emulator and run, once, under the asked checks."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sparkctl.arch import Arch
from sparkctl.build import DEFAULT_ARCH, Progress, Sanitizer, ensure_built
from sparkctl.build.program import require_program
from sparkctl.errors import WorkFailed
from sparkctl.interrupts import check_interrupt
from sparkctl.registry import Registry
from sparkctl.toolchain import start_tool
from sparkctl.workflows.suite import AsyncMode, Schedule

TOLD_LINES = 200  # of what a program says: a report is one screen, and a run-away program must not fill the memory


@dataclass(frozen=True, slots=True)
class ProgramOptions:
    """What was asked for."""

    path: Path
    arch: Arch | None = None
    profile: str = "release"
    sets: Mapping[str, str] = field(default_factory=dict)
    sanitizer: Sanitizer | None = None
    schedule: Schedule | None = None
    async_mode: AsyncMode | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class ProgramReport:
    """How the program ended and what it said: lines that begin with `FAIL: ` are faults."""

    options: ProgramOptions
    arch: Arch
    program: Path
    returncode: int
    lines: tuple[str, ...]
    left_out: int = 0  # lines beyond TOLD_LINES

    @property
    def passed(self) -> bool:
        """It ended with exit code 0."""
        return self.returncode == 0

    @property
    def ending(self) -> str:
        """`exit code 1`, or the signal that ended it."""
        code = self.returncode
        return f"exit code {code}" if code >= 0 else f"killed by signal {-code}{_signal_name(-code)}"


def _signal_name(number: int) -> str:
    """` (SIGSEGV)`; nothing for a number without a name, as real-time signals are."""
    names = {each.value: each.name for each in signal.Signals}
    return f" ({names[number]})" if number in names else ""


def run_program(
    registry: Registry,
    options: ProgramOptions,
    *,
    progress: Progress | None = None,
    environ: Mapping[str, str] = os.environ,
) -> ProgramReport:
    """Build the file and run it. WorkFailed where it does not compile, UsageError where there is no such file."""
    path = require_program(options.path)
    arch = options.arch or DEFAULT_ARCH
    try:
        folder = ensure_built(
            registry,
            (),
            arch=arch,
            backend="emulator",
            profile=options.profile,
            sets=options.sets,
            environ=environ,
            progress=progress,
            sanitizer=options.sanitizer,
            program=path,
        )
    except WorkFailed as error:
        raise WorkFailed(error.message, hint=_what_is_missing(path, error.message) or error.hint) from error
    program = folder / path.stem
    process = start_tool([str(program)], cwd=Path.cwd(), env={**environ, **emulator_variables(options)})
    lines: list[str] = []
    left_out = 0
    assert process.stdout is not None
    try:
        with process.stdout as stream:
            for raw in stream:
                check_interrupt()
                if len(lines) < TOLD_LINES:
                    lines.append(raw.decode("utf-8", "replace").rstrip("\n"))
                else:
                    left_out += 1
        code = process.wait()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    return ProgramReport(options, arch, program, code, tuple(lines), left_out)


def _what_is_missing(path: Path, said: str) -> str | None:
    """Of a file that is a kernel and not yet a program of it."""
    if "main" in said and "undefined reference" in said:
        return f"{path.name} has no main(): write one that launches the kernel and checks it, as in docs/sanitize.md"
    if "does not name a type" in said and "program/program.h" not in path.read_text(encoding="utf-8", errors="replace"):
        return f'#include "program/program.h" in {path.name}, and write a main(): docs/sanitize.md'
    return None


def emulator_variables(options: ProgramOptions) -> dict[str, str]:
    """What the emulator reads when it starts."""
    chosen = {"SCHEDULE": options.schedule, "ASYNC": options.async_mode, "SEED": str(options.seed or 1)}
    return {f"SPARKCTL_EMULATOR_{name}": value for name, value in chosen.items() if value}
