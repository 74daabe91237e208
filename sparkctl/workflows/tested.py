"""Joins test runs and register reports: what the last test of a variant said, and whether it was of this code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sparkctl.arch import Arch
from sparkctl.bench.results import Stamp
from sparkctl.build import changed_flags, default_build_root, inputs_of
from sparkctl.registry import Registry
from sparkctl.testing.results import VariantResult
from sparkctl.testing.verdicts import Code, Verdict, code_key, recall, remember
from sparkctl.toolchain import hash_files
from sparkctl.workflows.suite import SuiteOptions, SuitePlan

# The emulator's own sources are no part of what a GPU runs.
_EMULATOR = "csrc/emulator/"
_NOT_COMPILED_INTO: Mapping[str, tuple[str, ...]] = {"emulator": ("nvcc", "ptxas"), "cuda": ("host",)}


@dataclass(frozen=True, slots=True)
class LastTest:
    """The last test of a variant; `current`: every source it was compiled from is as it was then."""

    verdict: Verdict
    current: bool


class LastTests:
    """The verdicts that a project keeps; files are read once."""

    def __init__(self, registry: Registry, environ: Mapping[str, str]) -> None:
        self._registry = registry
        self._environ = environ
        self._book = recall(verdicts_path(registry, environ))
        self._by_variant: dict[str, list[Verdict]] = {}
        for verdict in self._book.verdicts:
            self._by_variant.setdefault(verdict.variant, []).append(verdict)
        self._digests: dict[str, str | None] = {}
        self._current: dict[str, bool] = {}

    def of(self, variant: str, arch: Arch, profile: str, sets: Mapping[str, str]) -> LastTest | None:
        """The test that says most: of this code, on a GPU of the arch, the newest; with these flags."""
        found = [
            LastTest(verdict, self._is_current(verdict.code))
            for verdict in self._by_variant.get(variant, ())
            if verdict.profile == profile
            and (verdict.backend == "emulator" or verdict.arch == arch.name)
            and verdict.sets == compiled_flags(self._registry, sets, self._environ, verdict.backend)
        ]
        return max(found, key=lambda t: (t.current, t.verdict.backend == "cuda", t.verdict.time), default=None)

    def _is_current(self, key: str) -> bool:
        if key not in self._current:
            code = (self._book.codes or {}).get(key, {})
            self._current[key] = bool(code) and all(self._digest(path) == digest for path, digest in code.items())
        return self._current[key]

    def _digest(self, path: str) -> str | None:
        if path not in self._digests:
            try:
                self._digests[path] = hash_files([self._registry.root / path])
            except OSError:
                self._digests[path] = None
        return self._digests[path]


def keep_verdicts(
    registry: Registry,
    plan: SuitePlan,
    options: SuiteOptions,
    results: Iterable[VariantResult],
    *,
    folder: Path,
    stamp: Stamp,
    environ: Mapping[str, str],
) -> None:
    """Keep what each variant's cases said, and the code that was compiled into `folder` for it."""
    inputs = inputs_of(folder)
    flags = compiled_flags(registry, options.sets, environ, plan.backend)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    verdicts, codes = [], dict[str, Code]()
    for result in results:
        files = inputs.get(result.variant.name, {})
        code = {path: digest for path, digest in files.items() if not path.startswith(_EMULATOR)}
        if not code or not result.cases_run:
            continue
        codes[code_key(code)] = code
        verdicts.append(
            Verdict(
                variant=result.variant.name,
                backend=plan.backend,
                device=plan.device,
                arch=plan.arch.name,
                profile=options.profile,
                sets=flags,
                cases=result.cases_run,
                failed=len(result.failures),
                whole=options.takes_every_case and not result.skips and not result.device_lost,
                commit=stamp.commit,
                dirty=stamp.dirty,
                time=now,
                code=code_key(code),
            )
        )
    if verdicts:
        remember(verdicts_path(registry, environ), verdicts, codes)


def compiled_flags(
    registry: Registry, sets: Mapping[str, str], environ: Mapping[str, str], backend: str
) -> dict[str, str]:
    """The flags that were set and decide what this backend compiles."""
    others = _NOT_COMPILED_INTO[backend]
    changed = changed_flags(registry, sets, environ)
    return {name: value for name, value in changed.items() if registry.flags[name].kind not in others}


def verdicts_path(registry: Registry, environ: Mapping[str, str]) -> Path:
    return default_build_root(registry, environ) / "test" / "verdicts.json"
