"""Failed edges as one error: alike ones once, a few in full, all of them in a file."""

from __future__ import annotations

import errno
import os
import re
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkctl.build.model import BuildResult, EdgeResult, PlanResult
from sparkctl.build.state import write_text
from sparkctl.errors import WorkFailed

FAILURES_NAME = "failures.log"
SHOWN = 3
NAMED = 4
DISK_FULL = os.strerror(errno.ENOSPC)
_ERROR = re.compile(r"\b(fatal|error|undefined reference)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Failure:
    plan: PlanResult
    edge: EdgeResult


def raise_failures(result: BuildResult) -> None:
    """WorkFailed with the failed edges, if there are any: each error once, the first few in full."""
    broken = [_Failure(plan, edge) for plan in result.plans for edge in plan.failed]
    if not broken:
        return
    groups: dict[object, list[_Failure]] = {}
    for failure in broken:
        groups.setdefault(_essence(failure), []).append(failure)
    parts = [_describe_group(group) for group in list(groups.values())[:SHOWN]]
    if hidden := [failure for group in list(groups.values())[SHOWN:] for failure in group]:
        count = len(groups) - SHOWN
        parts.append(f"and {_count(count, 'other error')} in {_names(hidden, broken[0].plan)}")
    raise WorkFailed("\n\n".join(parts), hint=_hint(result, broken))


def save_failures(folder: Path, edges: Iterable[EdgeResult]) -> None:
    """All failures of the last build in full; no file where there are none."""
    text = "\n\n".join(_describe(edge, "") for edge in edges if edge.status == "failed")
    if text:
        write_text(folder / FAILURES_NAME, f"{text}\n")
    else:
        (folder / FAILURES_NAME).unlink(missing_ok=True)


def _hint(result: BuildResult, broken: Sequence[_Failure]) -> str:
    full = any(DISK_FULL in (failure.edge.output or "") for failure in broken)
    advice = f"free some space for {broken[0].plan.folder.parent}; " if full else ""
    whole = any(edge.status in ("built", "cached", "up to date") for plan in result.plans for edge in plan.edges)
    logs = dict.fromkeys(str(failure.plan.folder / FAILURES_NAME) for failure in broken)
    rest = "the rest is built" if whole else "nothing was built"
    return f"{advice}{rest}; every failure in full: {' '.join(logs)}"


def _describe_group(group: Sequence[_Failure]) -> str:
    first, *others = group
    text = _describe(first.edge, f" ({first.plan.label})")
    if not others:
        return text
    noun = "variant" if all(failure.edge.is_variant for failure in others) else "edge"
    return f"{text}\nthe same in {_count(len(others), f'more {noun}')}: {_names(others, first.plan)}"


def _describe(edge: EdgeResult, where: str) -> str:
    code = edge.exit_code or 1
    how = f"killed by signal {code - 128}" if code > 128 else f"exit code {code}"
    if code == 128 + signal.SIGKILL:
        how += " (out of memory?)"
    lines = [f"{edge.name} failed{where}, {how}", edge.command or "", (edge.output or "").rstrip()]
    return "\n".join(line for line in lines if line)


def _essence(failure: _Failure) -> object:
    """What failures have in common that are the same to a reader: the exit code and the lines with errors.

    Names of variants, libraries and temporary files are left out. Lines around the errors tell which template
    arguments led there, so they differ from variant to variant.
    """
    text = failure.edge.output or ""
    for name, stand_in in ((failure.edge.name, "NAME"), (failure.plan.label, "LIBRARY")):
        text = text.replace(name, stand_in)
    text = re.sub(r"tmpxft_\w+", "TEMPORARY", text)
    lines = [line.strip() for line in text.splitlines()]
    return failure.edge.exit_code, tuple(line for line in lines if _ERROR.search(line)) or tuple(lines)


def _names(failures: Sequence[_Failure], shown: PlanResult) -> str:
    """The first few; the library only where it is another one than `shown`."""
    names = [f"{f.edge.name} ({f.plan.label})" if f.plan.label != shown.label else f.edge.name for f in failures]
    if len(names) <= NAMED + 1:
        return ", ".join(names)
    return f"{', '.join(names[:NAMED])} and {len(names) - NAMED} more"


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"
