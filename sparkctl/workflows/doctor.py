"""Everything that sparkctl needs of this machine, looked at and tried, in a form that can be shown to others."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from sparkctl.toolchain import hide_password
from sparkctl.workflows.doctor_cache import look_at_cache
from sparkctl.workflows.doctor_compilers import look_at_compilers
from sparkctl.workflows.doctor_devices import look_at_devices
from sparkctl.workflows.doctor_places import look_at_places
from sparkctl.workflows.doctor_python import look_at_python
from sparkctl.workflows.finding import Finding, found


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All findings, in the order of the table."""

    findings: tuple[Finding, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of what keeps the main job (build, regs, test) from running."""
        return tuple(dict.fromkeys(finding.name for finding in self.findings if finding.state == "error"))

    @property
    def warnings(self) -> int:
        """How many things work at a cost."""
        return sum(finding.state == "warning" for finding in self.findings)


def diagnose(project: Path | None, environ: Mapping[str, str] = os.environ) -> Diagnosis:
    """Look at everything. Nothing is raised for a fault, and nothing is left behind but what probes answered."""
    groups: list[Callable[[], Iterable[Finding]]] = [
        look_at_python,
        lambda: _with_folder(lambda temp: look_at_compilers(environ, temp)),
        lambda: _with_folder(lambda temp: look_at_cache(environ, temp)),
        lambda: look_at_places(project, environ),
        lambda: look_at_devices(environ),
    ]
    with ThreadPoolExecutor(len(groups)) as pool:
        findings = [finding for part in pool.map(_listed, groups) for finding in part]
    return Diagnosis(tuple(_without_private(finding, environ) for finding in findings))


def _listed(look: Callable[[], Iterable[Finding]]) -> list[Finding]:
    return list(found("temporary", look))


def _with_folder(look: Callable[[Path], Iterable[Finding]]) -> Iterator[Finding]:
    with tempfile.TemporaryDirectory(prefix="sparkctl-doctor-", ignore_cleanup_errors=True) as folder:
        yield from look(Path(folder))


def _without_private(finding: Finding, environ: Mapping[str, str]) -> Finding:
    what, where, fix = (hide_private(text, environ) for text in (finding.what, finding.where, finding.fix or ""))
    return replace(finding, what=what, where=where, fix=fix or None)


def hide_private(text: str, environ: Mapping[str, str]) -> str:
    """The home folder as `~`, no passwords, and no user's name in other paths."""
    text = hide_password(text)
    home = environ.get("HOME", "").rstrip("/")
    if home:
        text = text.replace(f"'{home}/", "~/'")  # a quoted path: the shell must still expand the tilde
        text = re.sub(rf"{re.escape(home)}(?![\w.-])", "~", text)
    user = environ.get("USER") or environ.get("LOGNAME") or ""
    return re.sub(rf"(?<=/){re.escape(user)}(?=/|\s|$)", "USER", text) if len(user) > 2 else text
