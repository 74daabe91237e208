"""Parses what `ptxas -v` prints; a failed or cut-off log is an error, never a wrong answer."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from sparkctl.errors import WorkFailed
from sparkctl.resources.demangle import demangle, is_copy
from sparkctl.resources.model import ResourceUsage

_MESSAGE = re.compile(r"^(?:\d+>\s*)?ptxas\s+(?P<level>info|warning|error|fatal)\s*:\s*(?P<text>.*)$")
_CONTINUED = re.compile(r"^(?:\d+>\s*)?ptxas\s+\.\s+")  # NVRTC prefixes the indented line
_FAILED = re.compile(
    r"^(?:\d+>\s*)?(?:(?:ptxas|nvlink|nvcc|cicc|cudafe\+\+)\s+(?:error|fatal)\s*:"
    r"|.*?(?:^|[:)]\s+)(?:catastrophic |fatal )?error(?: #[\w-]+)?: "
    r"|\d+ errors? detected in the compilation of "
    r"|nvrtc: error)"
)
_RUN = re.compile(r"\d+ bytes gmem")
_COMPILING = re.compile(r"Compiling entry function '(?P<name>[^']+)' for '(?P<arch>\w+)'$")
_PROPERTIES = re.compile(r"Function properties for (?P<name>\S+)$")
_FRAME = re.compile(
    r"^\s*(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads$"
)
_USED_PART = re.compile(r"(?:used )?(?P<count>\d+) (?P<what>[a-z][a-z ]*?)(?:\[\d+\])?$")
_CAP = re.compile(r"Overriding maximum register limit \d+ for '(?P<name>[^']+)' with\s+(?P<cap>\d+) of maxrregcount")
MAX_FUNCTIONS = 20_000
_HINT = "build it again; a log counts only when the compiler finished with exit status 0"


@dataclass(slots=True)
class _Reader:
    """Where the reading is: the entry that waits for its numbers, and the functions done so far."""

    done: list[ResourceUsage] = field(default_factory=list)
    runs: int = 0
    run_start: int = 0  # index in `done` where this run of ptxas (one arch) began
    next_caps: dict[str, int] = field(default_factory=dict)  # printed before the run that they belong to
    caps: dict[str, int] = field(default_factory=dict)
    waiting: tuple[str, str] | None = None  # entry (name, arch) announced, "Used" not yet seen
    named: str | None = None  # function whose frame line comes next
    frame: tuple[int, int, int] | None = None  # the waiting entry's stack, stores, loads


def parse_ptxas(text: str) -> tuple[ResourceUsage, ...]:
    """Every function of a log, in its order: entries with registers, device functions with their stack and spills.

    Reads logs of nvcc, ptxas and NVRTC from CUDA 11 to 13.5, of one or more archs. Raises WorkFailed when the log has
    an error, ends early, or is no `ptxas -v` log at all.
    """
    refuse_failure(text.splitlines())
    *whole, last = text.rstrip("\0").split("\n")
    return parse_lines((*(f"{line}\n" for line in whole), last))


def parse_lines(lines: Iterable[str]) -> tuple[ResourceUsage, ...]:
    """As parse_ptxas, line by line; one without its line break may be cut. `refuse_failure` comes first."""
    reader = _Reader()
    for number, line in enumerate(lines, start=1):
        _read_line(reader, line.rstrip("\r\n\0"), number, cut=not line.endswith("\n"))
        if len(reader.done) > MAX_FUNCTIONS:
            raise WorkFailed(f"compiler log has more than {MAX_FUNCTIONS} functions", hint="read it in parts")
    _finish(reader)
    return tuple(reader.done)


def refuse_failure(lines: Iterable[str]) -> None:
    """WorkFailed where a compiler said that it failed: ptxas prints numbers all the same."""
    for number, line in enumerate(lines, start=1):
        if ("error" in line or "fatal" in line) and _FAILED.match(line):  # the words first: logs may be 100 MB
            raise WorkFailed(f"compiler log line {number}: {line.strip()}", hint=_HINT)


def _read_line(reader: _Reader, line: str, number: int, *, cut: bool) -> None:
    if reader.named is not None:
        _read_frame(reader, _CONTINUED.sub("", line), number)
        return
    message = _MESSAGE.match(line)
    if message is None or message["level"] == "warning":
        return
    text = message["text"]
    if match := _CAP.match(text):
        reader.next_caps[match["name"]] = int(match["cap"])
    elif _RUN.match(text):
        _start_run(reader, number)
    elif text.startswith("Compiling"):
        _read_compiling(reader, text, number)
    elif text.startswith("Function properties"):
        match = _PROPERTIES.match(text)
        if match is None:
            raise _unreadable(number, line)
        reader.named = match["name"]
    elif text.startswith("Used"):
        _read_used(reader, line, text, number, cut=cut)


def _start_run(reader: _Reader, number: int) -> None:
    """One run of ptxas is one arch; the log of several archs is their runs one after another."""
    _refuse_waiting(reader, number)
    _finish_run(reader)
    reader.runs += 1
    reader.run_start = len(reader.done)
    reader.caps, reader.next_caps = reader.next_caps, {}


def _read_compiling(reader: _Reader, text: str, number: int) -> None:
    _refuse_waiting(reader, number)
    match = _COMPILING.match(text)
    if match is None:
        raise _unreadable(number, text)
    reader.waiting, reader.frame = (match["name"], match["arch"]), None


def _read_frame(reader: _Reader, line: str, number: int) -> None:
    match = _FRAME.match(line)
    if match is None:
        raise _unreadable(number, line, f"expected the stack frame and spills of {reader.named}")
    frame = int(match["stack"]), int(match["stores"]), int(match["loads"])
    name, reader.named = reader.named or "", None
    if reader.waiting is not None and reader.waiting[0] == name:
        reader.frame = frame
        return
    reader.done.append(
        ResourceUsage(
            function=name,
            demangled=demangle(name),
            arch=None,  # _finish_run knows it
            kind="device",
            registers=None,
            spill_store_bytes=frame[1],
            spill_load_bytes=frame[2],
            stack_bytes=frame[0],
            cumulative_stack_bytes=None,
            static_smem_bytes=None,
            barriers=None,
            constant_bytes=None,
        )
    )


def _read_used(reader: _Reader, line: str, text: str, number: int, *, cut: bool) -> None:
    counts = _used_counts(text.removeprefix("Used "))
    if counts is None or "registers" not in counts or cut:  # the line's tail is optional: a cut one would parse
        raise _unreadable(number, line)
    if reader.waiting is None or reader.frame is None:
        raise _unreadable(number, line, "no entry function is waiting for it: do several compiles share this log?")
    (name, arch), (stack, stores, loads) = reader.waiting, reader.frame
    reader.waiting = reader.frame = None
    reader.done.append(
        ResourceUsage(
            function=name,
            demangled=demangle(name),
            arch=arch,
            kind="entry",
            registers=counts["registers"],
            spill_store_bytes=stores,
            spill_load_bytes=loads,
            stack_bytes=stack,
            cumulative_stack_bytes=counts.get("bytes cumulative stack size"),
            static_smem_bytes=counts.get("bytes smem", 0),
            barriers=counts.get("barriers"),
            constant_bytes=counts.get("bytes cmem", 0),
            register_cap=reader.caps.get(name),
        )
    )


def _used_counts(text: str) -> dict[str, int] | None:
    """`80 registers, used 4 barriers, 16 bytes smem, 372 bytes cmem[0]` by what is counted; None if a part is cut."""
    counts: dict[str, int] = {}
    for part in text.split(", "):
        match = _USED_PART.match(part.strip())
        if match is None:
            return None
        counts[match["what"]] = counts.get(match["what"], 0) + int(match["count"])
    return counts


def _finish_run(reader: _Reader) -> None:
    """What only the whole run tells: a device function's arch."""
    run = reader.done[reader.run_start :]
    archs = {usage.arch for usage in run if usage.arch is not None}
    if len(archs) > 1 and reader.runs:
        what = f"compiler log has kernels for {' and '.join(sorted(archs))} in one run of ptxas"
        raise WorkFailed(what, hint="do several compiles share this log? keep one log per compile")
    arch = archs.pop() if len(archs) == 1 else None
    reader.done[reader.run_start :] = [replace(usage, arch=usage.arch or arch) for usage in run]


def _mark_relocatable(reader: _Reader) -> None:
    """Relocatable code is seen by its copies alone. Where some is, what a log says of shared memory is not final."""
    if any(is_copy(usage.function) for usage in reader.done):
        reader.done[:] = [
            replace(usage, relocatable=True, static_smem_bytes=usage.static_smem_bytes or None) for usage in reader.done
        ]


def _finish(reader: _Reader) -> None:
    if reader.named is not None:
        raise WorkFailed(f"compiler log ends before the stack frame of {reader.named}", hint=_HINT)
    if reader.waiting is not None:
        raise WorkFailed(f"compiler log ends before the registers of {reader.waiting[0]}", hint=_HINT)
    if not reader.done and not reader.runs:
        raise WorkFailed("compiler log has no ptxas report", hint="compile with -Xptxas=-v")
    _finish_run(reader)
    _mark_relocatable(reader)
    seen: set[tuple[str, str | None]] = set()
    for usage in reader.done:
        if usage.is_entry and (usage.function, usage.arch) in seen:
            what = f"compiler log reports {usage.function} for {usage.arch} twice"
            raise WorkFailed(what, hint="keep one log per compile")
        if usage.is_entry:
            seen.add((usage.function, usage.arch))


def _refuse_waiting(reader: _Reader, number: int) -> None:
    if reader.waiting is not None:
        raise WorkFailed(f"compiler log line {number}: {reader.waiting[0]} has no registers yet", hint=_HINT)


def _unreadable(number: int, line: str, why: str = "not a line that ptxas prints, or cut off") -> WorkFailed:
    return WorkFailed(f"compiler log line {number}: {line.strip()!r}: {why}", hint=_HINT)
