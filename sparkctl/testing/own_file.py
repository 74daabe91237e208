"""The Python file in which a kernel's author keeps its cases, inputs, call and reference: loaded and checked."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from sparkctl.errors import UsageError, WorkFailed
from sparkctl.interrupts import check_interrupt
from sparkctl.testing.model import Grid, OwnCase

FUNCTIONS = ("cases", "inputs", "run", "reference")
PLAIN = (bool, int, float, str)


@dataclass(frozen=True)
class OwnFile:
    """Its functions. `inputs`, `run` and `reference` are called by keyword, as docs/own-kernels.md says."""

    path: Path
    module: ModuleType

    def cases(self, grid: Grid) -> tuple[OwnCase, ...]:
        """What cases(grid) gives. WorkFailed where it raises, UsageError for anything but dicts of plain values."""
        return tuple(self._checked(self.call("cases", grid)))

    def function(self, name: str) -> Callable[..., Any] | None:
        """A function of the file, or None."""
        found = getattr(self.module, name, None)
        return found if callable(found) else None

    def bench_cases(self) -> tuple[OwnCase, ...]:
        """What bench_cases() gives, checked as cases; nothing where there is no such function."""
        return tuple(self._checked(self.call("bench_cases"))) if self.function("bench_cases") else ()

    def call(self, name: str, *arguments: Any, **named: Any) -> Any:
        """Call a function of the file. WorkFailed with file and line where it raises."""
        try:
            with redirect_stdout(sys.stderr):  # what it prints must not lie between our results
                return getattr(self.module, name)(*arguments, **named)
        except MemoryError:
            raise
        except (Exception, SystemExit) as error:
            check_interrupt()
            text = f"{_where(self.path, error)}: {name}(): {type(error).__name__}: {error}"
            raise WorkFailed(text) from error

    def _checked(self, given: Any) -> Iterable[OwnCase]:
        if not isinstance(given, Iterable) or isinstance(given, str | Mapping):
            raise UsageError(f"{self.path.name}: cases() gave {type(given).__name__}, accepted is a list of dicts")
        seen: set[str] = set()
        for entry in given:
            if not isinstance(entry, Mapping) or not all(isinstance(name, str) for name in entry):
                raise UsageError(f"{self.path.name}: cases() gave {entry!r}, accepted is a dict by name")
            for name, value in entry.items():
                if not isinstance(value, PLAIN):
                    kinds = "a bool, int, float or str"
                    raise UsageError(f"{self.path.name}: cases() gave {name}={value!r}, accepted is {kinds}")
            case = OwnCase(tuple(entry.items()))
            if case.id in seen:
                raise UsageError(f"{self.path.name}: cases() gave {case.id} twice", hint="tell them apart by a value")
            seen.add(case.id)
            yield case


def load_own_file(path: Path) -> OwnFile:
    """UsageError with file and line for one that cannot be read or run, or lacks a function. Once per content."""
    try:
        changed = path.stat().st_mtime_ns
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    return _load(path, changed)


@lru_cache(maxsize=64)
def _load(path: Path, changed: int) -> OwnFile:
    spec = importlib.util.spec_from_file_location(f"sparkctl_own_{path.stem}_{changed}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        with redirect_stdout(sys.stderr), _folder_on_path(path.parent):
            spec.loader.exec_module(module)
    except SyntaxError as error:
        raise UsageError(f"{path.name}:{error.lineno}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        check_interrupt()
        raise UsageError(f"{_where(path, error)}: {type(error).__name__}: {error}") from error
    for name in FUNCTIONS:
        if not callable(getattr(module, name, None)):
            names = ", ".join(f"{name}()" for name in FUNCTIONS)
            raise UsageError(f"{path.name}: there is no {name}()", hint=f"{names} are asked for (docs/own-kernels.md)")
    if not inspect.signature(module.cases).parameters:
        raise UsageError(f"{path.name}: cases() takes no argument", hint="cases(grid): 'quick', 'full' or 'device'")
    return OwnFile(path, module)


@contextmanager
def _folder_on_path(folder: Path) -> Iterator[None]:
    """The file may import what lies beside it."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _where(path: Path, error: BaseException) -> str:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"{path.name}:{lines[-1]}" if lines else path.name
