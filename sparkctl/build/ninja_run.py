"""Runs ninja: reads what it says, and ends it and its compilers with us, whatever ends us."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sparkctl.build.sampler import MemorySampler
from sparkctl.errors import MissingTool

STATUS_MARK = "@sparkctl@ "
GRACE_S = 5.0
_PR_SET_PDEATHSIG = 1
_STATUS = re.compile(re.escape(STATUS_MARK) + r"(\d+) (\d+) (.*)")


@dataclass(slots=True)
class NinjaRun:
    """What one ninja did."""

    returncode: int = 0
    finished: dict[str, bool] = field(default_factory=dict)  # edge name -> whether it went well
    failures: dict[str, tuple[str, str]] = field(default_factory=dict)  # edge name -> command, output
    messages: list[str] = field(default_factory=list)  # ninja's own, and what edges that went well printed
    peaks: dict[str, int] = field(default_factory=dict)  # edge name -> bytes


def run_ninja(
    ninja: Path,
    file: str,
    *,
    cwd: Path,
    environ: Mapping[str, str],
    jobs: int,
    lock_fd: int | None = None,
    on_edge: Callable[[str, bool, int, int], None] = lambda *_: None,
) -> NinjaRun:
    """Build the file's default target, going on past failures. `on_edge`: name, went well, done, total.

    On KeyboardInterrupt ninja is stopped, with the outputs it was writing removed, before the exception goes on.
    """
    run = NinjaRun()
    argv = [str(ninja), "-f", file, "-j", str(jobs), "-k", "0"]
    env = {**environ, "NINJA_STATUS": f"{STATUS_MARK}%f %t ", "TERM": "dumb"}
    env.pop("MAKEFLAGS", None)
    process = _start(argv, cwd, env, lock_fd)
    assert process.stdout is not None
    parser = _Parser(run, on_edge)
    try:
        with process.stdout, MemorySampler(process.pid) as sampler:
            for line in process.stdout:
                parser.take(line.rstrip("\n"))
            run.returncode = process.wait()
        parser.end()
    except BaseException:
        _stop(process)
        raise
    run.peaks = sampler.peaks
    return run


def read_dependencies(ninja: Path, file: str, *, cwd: Path) -> dict[str, tuple[str, ...]]:
    """Output -> the files that it was made from, as ninja keeps them."""
    done = subprocess.run(
        [str(ninja), "-f", file, "-t", "deps"], cwd=cwd, capture_output=True, text=True, errors="replace", check=False
    )
    return parse_dependencies(done.stdout.splitlines())


def parse_dependencies(lines: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """`ninja -t deps`: an output's line ends in `(VALID)`, its inputs are indented."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in lines:
        if line.startswith("    "):
            if current is not None:
                current.append(line[4:])
        elif ": #deps " in line:
            name, _, rest = line.rpartition(": #deps ")
            current = found.setdefault(name, []) if rest.endswith("(VALID)") else None
    return {name: tuple(inputs) for name, inputs in found.items()}


def read_times(log: Path) -> dict[str, float]:
    """Output -> seconds that its edge took when it last ran, from `.ninja_log`."""
    times: dict[str, float] = {}
    with contextlib.suppress(OSError):
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            parts = line.split("\t")
            if len(parts) == 5 and parts[0].isdigit() and parts[1].isdigit():
                times[parts[3]] = (int(parts[1]) - int(parts[0])) / 1000
    return times


class _Parser:
    """ninja prints a status line when an edge ends, then `FAILED:`, the command and the output where it broke."""

    def __init__(self, run: NinjaRun, on_edge: Callable[[str, bool, int, int], None]) -> None:
        self._run = run
        self._on_edge = on_edge
        self._status: tuple[str, int, int] | None = None
        self._lines: list[str] = []

    def take(self, line: str) -> None:
        if match := _STATUS.fullmatch(line):
            self.end()
            self._status = (match[3], int(match[1]), int(match[2]))
        elif line.startswith("ninja: "):
            self.end()
            self._run.messages.append(line.removeprefix("ninja: "))
        else:
            self._lines.append(line)

    def end(self) -> None:
        """The edge whose lines were gathered is complete."""
        lines, self._lines = self._lines, []
        if self._status is None:
            self._run.messages += lines
            return
        (name, done, total), self._status = self._status, None
        well = not (lines and lines[0].startswith("FAILED: "))
        if not well:
            command = lines[1] if len(lines) > 1 else ""
            self._run.failures[name] = (command, "\n".join(lines[2:]))
        else:
            self._run.messages += lines
        self._run.finished[name] = well
        self._on_edge(name, well, done, total)


def _start(argv: Sequence[str], cwd: Path, env: Mapping[str, str], lock_fd: int | None) -> subprocess.Popen[str]:
    libc = ctypes.CDLL(None, use_errno=True)
    parent = os.getpid()

    def die_with_parent() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    try:
        return subprocess.Popen(
            argv,
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            process_group=0,
            pass_fds=() if lock_fd is None else (lock_fd,),
            preexec_fn=die_with_parent,
        )
    except OSError as error:
        raise MissingTool(f"cannot run {argv[0]}: {error.strerror}", hint="pip install ninja") from error


def _stop(process: subprocess.Popen[str]) -> None:
    """ninja passes the signal on to its compilers and removes what they were writing."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
