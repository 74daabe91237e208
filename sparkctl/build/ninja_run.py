"""Runs ninja: reads what it says, and ends it and its compilers with us, whatever ends us."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sparkctl.build.sampler import MemorySampler
from sparkctl.toolchain import run_tool, start_tool

STATUS_MARK = "@sparkctl@ "
GRACE_S = 5.0  # for compilers to end after an interrupt
DRAIN_S = 1.0  # for what ninja said last, once it has ended
PAUSE_S = 0.1
_STATUS = re.compile(re.escape(STATUS_MARK) + "(.*)")


@dataclass(slots=True)
class NinjaRun:
    """What one ninja did."""

    returncode: int = 0
    finished: dict[str, bool] = field(default_factory=dict)  # edge name -> whether it went well
    failures: dict[str, tuple[int, str]] = field(default_factory=dict)  # edge name -> exit code, output
    messages: list[str] = field(default_factory=list)  # ninja's own, and what edges that went well printed
    peaks: dict[str, int] = field(default_factory=dict)  # edge name -> bytes


def run_ninja(
    ninja: Path,
    file: str,
    *,
    cwd: Path,
    environ: Mapping[str, str],
    jobs: int,
    run: NinjaRun,
    lock_fd: int | None = None,
    on_edge: Callable[[str, bool], None] = lambda *_: None,
) -> None:
    """Build the file's default target, going on past failures, and fill in `run`. `on_edge`: name, went well.

    On KeyboardInterrupt ninja is stopped, with the outputs it was writing removed, before the exception goes on;
    `run` then holds what had finished.
    """
    argv = [str(ninja), "-f", file, "-j", str(jobs), "-k", "0"]
    env = {**environ, "NINJA_STATUS": STATUS_MARK, "TERM": "dumb"}
    env.pop("MAKEFLAGS", None)
    process = start_tool(argv, cwd=cwd, env=env, keep_fds=() if lock_fd is None else (lock_fd,))
    assert process.stdout is not None
    parser = _Parser(run, on_edge)
    with process.stdout as stream, MemorySampler(process.pid) as sampler:
        try:
            _read_lines(stream.fileno(), parser)
        except BaseException:
            _stop(process, stream.fileno(), parser)
            parser.end()
            raise
        run.returncode = process.wait()
    parser.end()
    run.peaks = sampler.peaks


def read_dependencies(ninja: Path, file: str, *, cwd: Path) -> dict[str, tuple[str, ...]]:
    """Output -> the files that it was made from, as ninja keeps them."""
    listing = run_tool([ninja, "-f", file, "-t", "deps"], cwd=cwd, check=False)
    return parse_dependencies(listing.stdout.splitlines())


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


def _read_lines(descriptor: int, parser: _Parser, *, within: float | None = None) -> None:
    """Until the stream ends, or for `within` seconds. What nothing has followed for a moment is complete."""
    until = None if within is None else time.monotonic() + within
    rest = b""
    while until is None or time.monotonic() < until:
        if not select.select([descriptor], [], [], PAUSE_S)[0]:
            if until is None:
                parser.pause()
            continue
        block = os.read(descriptor, 1 << 16)
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            parser.take(line.decode("utf-8", "replace"))
        if not block:
            if rest:
                parser.take(rest.decode("utf-8", "replace"))
            return


class _Parser:
    """ninja prints a status line when an edge ends, then `FAILED:`, the command and the output where it broke.

    Only the next status line, or the end, shows that an edge's text is complete; a pause lets progress know earlier.
    """

    def __init__(self, run: NinjaRun, on_edge: Callable[[str, bool], None]) -> None:
        self._run = run
        self._on_edge = on_edge
        self._edge: str | None = None
        self._told: str | None = None
        self._lines: list[str] = []

    def take(self, line: str) -> None:
        if match := _STATUS.fullmatch(line):
            self.end()
            self._edge = match[1]
        elif line.startswith("ninja: "):
            self.end()
            self._run.messages.append(line.removeprefix("ninja: "))
        else:
            self._lines.append(line)

    def pause(self) -> None:
        """Nothing more came for a while: tell progress of an edge that seems well."""
        if self._edge is not None and self._edge != self._told and not self._lines:
            self._told = self._edge
            self._on_edge(self._edge, True)

    def end(self) -> None:
        """The edge whose lines were gathered is complete."""
        lines, self._lines = self._lines, []
        if self._edge is None:
            self._run.messages += lines
            return
        name, self._edge = self._edge, None
        well = not (lines and lines[0].startswith("FAILED: "))
        if not well:
            code = re.search(r"\[code=(\d+)\]", lines[0])
            self._run.failures[name] = (int(code[1]) if code else 1, "\n".join(lines[2:]))
        else:
            self._run.messages += lines
        self._run.finished[name] = well
        if not well or name != self._told:
            self._on_edge(name, well)


def _stop(process: subprocess.Popen[bytes], descriptor: int, parser: _Parser) -> None:
    """ninja passes the signal on to its compilers and removes what they were writing.

    Where one of them ignores it, all are killed. Whoever still holds the pipe then is not waited for.
    """
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        _read_lines(descriptor, parser, within=GRACE_S)  # ninja may be in the middle of a long text
        process.wait(DRAIN_S)
    if process.poll() is None:
        process.send_signal(signal.SIGSTOP)  # so that it starts no further one
        for group in (*_groups_below(process.pid), process.pid):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        process.wait()
        _read_lines(descriptor, parser, within=DRAIN_S)


def _groups_below(pid: int) -> set[int]:
    """The process groups of everything that a process has started: ninja gives each edge one of its own."""
    groups: set[int] = set()
    with contextlib.suppress(OSError):
        for word in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split():
            with contextlib.suppress(ProcessLookupError):
                groups.add(os.getpgid(int(word)))
            groups |= _groups_below(int(word))
    return groups - {os.getpgrp()}
