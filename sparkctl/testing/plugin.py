"""The pytest plugin: one item a variant, its cases looped inside, results kept beside pytest's own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from sparkctl.interrupts import check_interrupt
from sparkctl.testing.model import Case
from sparkctl.testing.prepare import Target
from sparkctl.testing.results import Selection, VariantResult
from sparkctl.testing.standalone import StandaloneTarget, run_standalone
from sparkctl.testing.suite import Outcome, run_variant

OnCase = Callable[[Selection, Case, Outcome], None]
AnyTarget = Target | StandaloneTarget


class VariantFailedError(Exception):
    """Cases of a variant failed; the text is what the report shows."""


class VariantItem(pytest.Item):
    """A variant's cases as one test."""

    def __init__(self, *, selection: Selection, plugin: VariantPlugin, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.selection = selection
        self.plugin = plugin

    def runtest(self) -> None:
        result = self.plugin.run(self.selection)
        if result.failures:
            raise VariantFailedError("\n".join(f"{f.case_id}: {f.message}" for f in result.failures))
        skipped = len(result.skips)
        assert result.cases_run + skipped == len(self.selection.cases), "the count shown must be the count run"
        if not result.cases_run:
            pytest.skip(result.skips[0].reason)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, VariantFailedError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, self.selection.variant.name


class VariantPlugin:
    """Makes the selections the items of the session and keeps their results."""

    def __init__(
        self, registry_path: Path, target: AnyTarget, selections: Sequence[Selection], on_case: OnCase
    ) -> None:
        self.registry_path = registry_path
        self.target = target
        self.selections = selections
        self.on_case = on_case
        self.results: list[VariantResult] = []
        self.session: pytest.Session | None = None

    def run(self, selection: Selection) -> VariantResult:
        def on_case(case: Case, outcome: Outcome) -> None:
            self.on_case(selection, case, outcome)

        if isinstance(self.target, StandaloneTarget):
            result = run_standalone(self.target, selection, on_case)
        else:
            result = run_variant(self.target, selection, on_case)
        self.results.append(result)
        if result.device_lost and self.session:
            self.session.shouldstop = f"{result.variant.name}: the device was lost"
        return result

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self.session = session

    def pytest_collection(self, session: pytest.Session) -> bool:
        """Instead of pytest's own, which reads paths as patterns: a folder may be called `[x]`."""
        session.items = [
            VariantItem.from_parent(
                session,
                name=selection.variant.name,
                nodeid=f"{self.registry_path.name}::{selection.variant.name}",
                path=self.registry_path,
                selection=selection,
                plugin=self,
            )
            for selection in self.selections
        ]
        session.testscollected = len(session.items)
        return True


def run_pytest(
    registry_path: Path,
    target: Target | StandaloneTarget,
    selections: Sequence[Selection],
    *,
    on_case: OnCase,
    junit: Path | None = None,
) -> list[VariantResult]:
    """Run the selections as pytest items; results come in the order run, one for each item that ran.

    KeyboardInterrupt where the run was interrupted; pytest itself would only stop.
    """
    plugin = VariantPlugin(registry_path.resolve(), target, selections, on_case)
    args = ["--config-file", os.devnull, "--noconftest"]
    args += [word for name in ("cacheprovider", "terminal", "faulthandler") for word in ("-p", f"no:{name}")]
    with junit_draft(junit) as draft, nothing_from_outside():
        code = pytest.main([*args, f"--junitxml={draft}"] if draft else args, plugins=[plugin])
    check_interrupt()
    stopped = code == pytest.ExitCode.INTERRUPTED
    if stopped and not any(result.device_lost for result in plugin.results):
        raise KeyboardInterrupt
    if not stopped and code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise RuntimeError(f"pytest ended with {code!r}")
    return plugin.results


@contextmanager
def junit_draft(target: Path | None) -> Iterator[Path | None]:
    """Where pytest writes its report, put in place whole at the end: pytest would expand `$` and `~` in its path."""
    if target is None:
        yield None
        return
    with TemporaryDirectory(prefix="sparkctl-") as folder:
        draft = Path(folder) / "report.xml"
        yield draft
        if draft.exists():
            write_whole(target, draft.read_text(encoding="utf-8"))


def write_whole(target: Path, text: str) -> None:
    """All of it or nothing."""
    draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    draft.write_text(text, encoding="utf-8")
    draft.replace(target)


@contextmanager
def nothing_from_outside() -> Iterator[None]:
    """What else is installed or set must not change a run: pytest loads no plugin but its own and ours."""
    mine = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": None, "PYTEST_PLUGINS": None}
    before = {name: os.environ.get(name) for name in mine}
    put_environ(mine)
    try:
        yield
    finally:
        put_environ(before)


def put_environ(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
