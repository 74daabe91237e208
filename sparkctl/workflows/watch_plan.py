"""What a round of `sparkctl watch` builds, from which files, and what was built there before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sparkctl.build import BuildPlan, plan_build, with_combines
from sparkctl.build.dependencies import read_inputs
from sparkctl.errors import SparkctlError, UsageError
from sparkctl.registry import Registry, Variant, load_registry, parse_sets, runs_on, select_variants
from sparkctl.registry.load import REGISTRY_NAME
from sparkctl.resources import Numbers
from sparkctl.resources.change import Key
from sparkctl.testing.cases import has_cases
from sparkctl.toolchain import Toolchain, find_toolchain
from sparkctl.workflows.regs import read_variant
from sparkctl.workflows.regs_vs import row_numbers
from sparkctl.workflows.watch_model import Memory, WatchRequest
from sparkctl.workflows.watch_sources import FileChange, Scope, scope_of


@dataclass(frozen=True, slots=True)
class Situation:
    """flags.yaml as it is now, and the plans that follow from it."""

    request: WatchRequest
    registry: Registry
    sets: Mapping[str, str]
    toolchain: Toolchain
    environ: Mapping[str, str]
    plans: tuple[BuildPlan, ...]  # a library for each arch, and with tests the emulator's with its runner

    def inputs(self) -> frozenset[Path]:
        """The files that the plans' edges were made from, and flags.yaml."""
        return read_inputs(self.plans) | {registry_file(self.request)}


def read_situation(request: WatchRequest, environ: Mapping[str, str]) -> Situation:
    """UsageError for a registry that is wrong or has nothing of what was asked for; MissingTool without a compiler."""
    registry = load_registry(request.project)
    sets = parse_sets(registry, request.sets)
    toolchain = find_toolchain(environ=environ)
    chosen = select_variants(registry, request.patterns, where=request.where)

    def plan(variants: Iterable[Variant], arch_index: int, *, emulated: bool = False) -> BuildPlan:
        return plan_build(
            registry,
            list(variants),
            arch=request.archs[arch_index],
            backend="emulator" if emulated else "cuda",
            profile=request.profile,
            sets=sets,
            toolchain=toolchain,
            environ=environ,
            runner=emulated,
        )

    plans = []
    for index, arch in enumerate(request.archs):
        if fitting := [variant for variant in chosen if runs_on(variant, arch)]:
            plans.append(plan(fitting, index))
    if not plans:
        select_variants(registry, request.patterns, arch=request.archs[0], where=request.where)  # raises, and says why
    tested = [v for v in chosen if runs_on(v, request.archs[0]) and has_cases(v.kernel) and v.kernel.cases_file is None]
    if request.cases and tested:
        with suppress(UsageError):  # no runner in this project: the tests say so
            plans.append(plan(with_combines(registry, tested), 0, emulated=True))
    return Situation(request, registry, sets, toolchain, environ, tuple(plans))


def recall(situation: Situation) -> Memory:
    """The numbers of what was built before this watch; of what is not there or cannot be read, none."""
    known: dict[Key, Numbers] = {}
    for plan in situation.plans:
        if plan.backend != "cuda":
            continue
        for variant in (edge.variant for edge in plan.edges if edge.variant):
            with suppress(SparkctlError):
                known |= {
                    (r.name, plan.arch.name): row_numbers(r) for r in read_variant(plan.folder, variant, plan.arch)
                }
    return Memory(known, known)


def scope_for(request: WatchRequest, inputs: Iterable[Path]) -> Scope:
    """What is looked at between two rounds."""
    return scope_of(inputs, request.project)


def matters(change: FileChange, inputs: frozenset[Path], *, broken: bool) -> bool:
    """Whether a change starts a round.

    A file that came or went always does. One that no variant was made from matters only while something does not
    compile: what the compiler read before it stopped is not on record.
    """
    return broken or change.what != "changed" or change.path in inputs


def describe(change: FileChange, request: WatchRequest) -> str:
    """`csrc/a.cuh changed`."""
    path = change.path
    shown = path.relative_to(request.project) if path.is_relative_to(request.project) else path
    return f"{shown} {change.what}"


def registry_file(request: WatchRequest) -> Path:
    return request.project / REGISTRY_NAME
