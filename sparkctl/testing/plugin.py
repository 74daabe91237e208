"""The pytest plugin: one item a variant, its cases looped inside, results kept beside pytest's own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sparkctl.testing.model import Case
from sparkctl.testing.prepare import Target
from sparkctl.testing.results import Selection, VariantResult
from sparkctl.testing.suite import Outcome, run_variant

OnCase = Callable[[Selection, Case, Outcome], None]


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


class VariantFile(pytest.File):
    """The registry, as the file that the items come from."""

    plugin: VariantPlugin

    def collect(self) -> Iterable[VariantItem]:
        for selection in self.plugin.selections:
            yield VariantItem.from_parent(self, name=selection.variant.name, selection=selection, plugin=self.plugin)


class VariantPlugin:
    """Collects the selections as items of the registry file and keeps their results."""

    def __init__(self, registry_path: Path, target: Target, selections: Sequence[Selection], on_case: OnCase) -> None:
        self.registry_path = registry_path
        self.target = target
        self.selections = selections
        self.on_case = on_case
        self.results: list[VariantResult] = []
        self.session: pytest.Session | None = None

    def run(self, selection: Selection) -> VariantResult:
        result = run_variant(self.target, selection, lambda case, outcome: self.on_case(selection, case, outcome))
        self.results.append(result)
        if result.device_lost and self.session:
            self.session.shouldstop = f"{result.variant.name}: the device was lost"
        return result

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self.session = session

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> VariantFile | None:
        if file_path != self.registry_path:
            return None
        file: VariantFile = VariantFile.from_parent(parent, path=file_path)
        file.plugin = self
        return file


def run_pytest(
    registry_path: Path, target: Target, selections: Sequence[Selection], *, on_case: OnCase, junit: Path | None = None
) -> list[VariantResult]:
    """Run the selections as pytest items; results come in the order run, one for each item that ran."""
    plugin = VariantPlugin(registry_path.resolve(), target, selections, on_case)
    args = [
        str(plugin.registry_path),
        f"--rootdir={plugin.registry_path.parent}",
        "--override-ini=addopts=",
        "--noconftest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:terminal",
        "-p",
        "no:faulthandler",
    ]
    if junit:
        args.append(f"--junitxml={junit.absolute()}")
    with no_outside_plugins():
        code = pytest.main(args, plugins=[plugin])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED):
        raise RuntimeError(f"pytest ended with {code!r}")
    return plugin.results


@contextmanager
def no_outside_plugins() -> Iterator[None]:
    """What else is installed must not change a run: pytest loads no plugin but its own and ours."""
    name = "PYTEST_DISABLE_PLUGIN_AUTOLOAD"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
