"""The test workflow: select variants and cases, build what is missing, run them through pytest, keep what failed."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from sparkctl.arch import Arch
from sparkctl.build import (
    DEFAULT_ARCH,
    RUNNER_NAME,
    Progress,
    default_build_root,
    ensure_built,
    with_combines,
)
from sparkctl.errors import MissingTool, UsageError
from sparkctl.registry import Registry, Variant, select_variants
from sparkctl.runtime import load_library, read_manifest
from sparkctl.runtime.manifest import Backend
from sparkctl.testing import failures
from sparkctl.testing.cases import cases_for, has_cases
from sparkctl.testing.export import recorder_for
from sparkctl.testing.expression import parse_expression
from sparkctl.testing.handful import choose_handful
from sparkctl.testing.model import Case, DecodeCase, Grid
from sparkctl.testing.plugin import run_pytest
from sparkctl.testing.prepare import Target
from sparkctl.testing.results import Selection
from sparkctl.testing.standalone import StandaloneTarget
from sparkctl.toolchain import find_devices
from sparkctl.workflows.stamp import read_stamp
from sparkctl.workflows.suite import SuiteOptions, SuitePlan, SuiteReport, Watcher
from sparkctl.workflows.tested import keep_verdicts


def plan_suite(registry: Registry, options: SuiteOptions, environ: Mapping[str, str] = os.environ) -> SuitePlan:
    """Raises UsageError where nothing is selected, MissingTool where the backend's device is not there."""
    backend, device, arch = choose_backend(options)
    variants = select_variants(registry, options.patterns, arch=arch, where=options.where)
    without = tuple(dict.fromkeys(v.kernel.name for v in variants if not has_cases(v.kernel)))
    tested = [variant for variant in variants if has_cases(variant.kernel)]

    refuse_runner(options, tested)

    def select(grid: Grid) -> list[Selection]:
        selections = [Selection(variant, cases_for(variant, grid)) for variant in tested]
        for narrow in narrowings(registry, options, backend, selections, environ):
            selections = [
                Selection(s.variant, tuple(case for case in s.cases if narrow(s.variant, case))) for s in selections
            ]
        most = options.most
        if most is not None:
            selections = [Selection(s.variant, choose_handful(s.cases, most)) for s in selections]
        return [selection for selection in selections if selection.cases]

    larger: Grid = "device" if backend == "cuda" else "full"
    grid: Grid = larger if options.full else "quick"
    check_groups(options.groups, (case for variant in tested for case in cases_for(variant, grid)))
    selections = select(grid)
    if not selections:
        in_larger = 0 if options.full else sum(len(selection.cases) for selection in select(larger))
        raise UsageError(f"no case is selected{selected_by(options)}", hint=nothing_hint(options, without, in_larger))
    return SuitePlan(tuple(selections), backend, arch, device, grid, without)


def run_suite(
    registry: Registry,
    plan: SuitePlan,
    options: SuiteOptions,
    *,
    watcher: Watcher,
    progress: Progress | None = None,
    environ: Mapping[str, str] = os.environ,
) -> SuiteReport:
    """Build what is missing, run every case, remember what failed. WorkFailed where the build fails."""
    folder = ensure_built(
        registry,
        with_combines(registry, (selection.variant for selection in plan.selections)),
        arch=plan.arch,
        backend=plan.backend,
        profile=options.profile,
        sets=options.sets,
        environ=environ,
        progress=progress,
        runner=options.runner,
        sanitizer=options.sanitizer,
    )
    alone = options.runner or options.sanitizer is not None
    target = standalone_target(registry, plan, options, folder) if alone else own_target(plan, options, folder)
    watcher.start(plan)
    try:
        results = run_pytest(registry.path, target, plan.selections, on_case=watcher.case, junit=options.junit)
    finally:
        watcher.stop()
    failures.remember(failures_path(registry, environ), plan.backend, results)
    stamp = read_stamp(registry.root)
    if not options.sanitizer:
        keep_verdicts(registry, plan, options, results, folder=folder, stamp=stamp, environ=environ)
    ran = {result.variant.name for result in results}
    not_run = tuple(s.variant.name for s in plan.selections if s.variant.name not in ran)
    manifest = read_manifest(folder) if isinstance(target, StandaloneTarget) else target.library.manifest
    shown = folder.relative_to(registry.root) if folder.is_relative_to(registry.root) else folder
    return SuiteReport(
        plan,
        options,
        shown,
        tuple(results),
        not_run,
        stamp=stamp,
        compiler=manifest.compiler,
        library_digest=manifest.digest,
    )


def own_target(plan: SuitePlan, options: SuiteOptions, folder: Path) -> Target:
    """The library, loaded into this process."""
    library = load_library(folder)
    if plan.backend == "emulator":
        library.configure_emulator(
            schedule=options.schedule or "ascending", async_mode=options.async_mode or "late", seed=options.seed
        )
    return Target(library, "cpu" if plan.backend == "emulator" else "cuda:0", options.seed, options.repeat)


def standalone_target(registry: Registry, plan: SuitePlan, options: SuiteOptions, folder: Path) -> StandaloneTarget:
    """The runner beside the library."""
    return StandaloneTarget(
        recorder_for(registry),
        folder / RUNNER_NAME,
        options.seed,
        options.repeat,
        runner_options(plan, options),
        options.limit_s,
    )


def runner_options(plan: SuitePlan, options: SuiteOptions) -> tuple[str, ...]:
    """The words for the runner that stand for the same conditions as here."""
    words = ["--repeat", str(options.repeat)] if options.repeat > 1 else []
    if plan.backend == "emulator" and (options.schedule or options.async_mode):
        words += ["--schedule", options.schedule or "ascending", "--async-mode", options.async_mode or "late"]
        words += ["--seed", str(options.seed)]
    return tuple(words)


def choose_backend(options: SuiteOptions) -> tuple[Backend, str, Arch]:
    """The backend, what to call its device, and the arch to build for."""
    emulated = options.schedule is not None or options.async_mode is not None or options.sanitizer is not None
    if options.backend == "cuda" and emulated:
        raise UsageError("--schedule, --async-mode and --sanitize are the emulator's", hint="leave out --backend cuda")
    devices = () if options.backend == "emulator" or emulated else find_devices()
    if not devices:
        if options.backend == "cuda" and options.export:  # cases need no device
            return "cuda", "a CUDA device", options.arch or DEFAULT_ARCH
        if options.backend == "cuda":
            raise MissingTool("no CUDA device", hint="sparkctl test --backend emulator runs the same cases on the CPU")
        return "emulator", "the emulator", options.arch or DEFAULT_ARCH
    return "cuda", devices[0].name, options.arch or devices[0].arch


def refuse_runner(options: SuiteOptions, variants: Iterable[Variant]) -> None:
    """UsageError where the standalone runner is asked for a kernel that is called from Python."""
    asked = "--runner" if options.runner else "--export" if options.export else None
    asked = f"--sanitize {options.sanitizer}" if options.sanitizer else asked
    own = next((variant.kernel for variant in variants if variant.kernel.cases_file is not None), None)
    if asked and own:
        check = f" --sanitize {options.sanitizer}" if options.sanitizer else ""
        raise UsageError(
            f"{asked}: {own.name} is called from Python, and the standalone runner has none",
            hint=f"a program around it in one file: sparkctl test FILE.cpp{check} (docs/own-kernels.md)",
        )


Narrowing = Callable[[Variant, Case], bool]


def narrowings(
    registry: Registry,
    options: SuiteOptions,
    backend: Backend,
    selections: Sequence[Selection],
    environ: Mapping[str, str],
) -> list[Narrowing]:
    """What --group, -k and --last-failed leave of the cases."""
    result: list[Narrowing] = []
    if options.groups:
        result.append(lambda variant, case: not isinstance(case, DecodeCase) or case.group in options.groups)
    if options.expression is not None:
        ids = {case.id for selection in selections for case in selection.cases}
        matches = parse_expression(options.expression, ids)
        result.append(lambda variant, case: matches(variant.name, case.id))
    if options.last_failed:
        failed = failures.recall(failures_path(registry, environ), backend)
        if not failed:
            raise UsageError(f"no case failed in the last run on the {backend} backend", hint="leave out --last-failed")
        result.append(lambda variant, case: (variant.name, case.id) in failed)
    return result


def check_groups(groups: Sequence[int], cases: Iterable[Case]) -> None:
    """UsageError for a group that no decode case has: the other kernels' cases would pass in its place."""
    found = {case.group for case in cases if isinstance(case, DecodeCase)} if groups else set()
    for group in groups:
        if not found:
            raise UsageError(f"--group {group}: no decode kernel is selected", hint="leave out --group")
        if group not in found:
            known = ", ".join(map(str, sorted(found)))
            raise UsageError(f"no case is selected by --group {group}", hint=f"the decode cases have {known}")


def selected_by(options: SuiteOptions) -> str:
    given = [f"--group {','.join(map(str, options.groups))}"] if options.groups else []
    given += [f"-k {options.expression!r}"] if options.expression is not None else []
    given += ["--last-failed"] if options.last_failed else []
    return f" by {' '.join(given)}" if given else ""


def nothing_hint(options: SuiteOptions, without_cases: Sequence[str], in_larger: int) -> str:
    """`in_larger`: how many cases the same options select with --full."""
    if without_cases and not options.expression:
        return f"{', '.join(without_cases)} has no cases: name a Python file that has them by cases: in flags.yaml"
    if in_larger:
        return f"--full selects {in_larger} case{'' if in_larger == 1 else 's'}"
    project = ["--project", str(options.project)] if options.project else []
    return f"the ids to choose from: {shlex.join(['sparkctl', *project, 'list', *options.patterns, '--cases'])}"


def failures_path(registry: Registry, environ: Mapping[str, str]) -> Path:
    return default_build_root(registry, environ) / "test" / "failures.json"
