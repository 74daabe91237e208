"""`sparkctl watch`: rebuild when a source is saved, compare the registers with the build before, run a few tests."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from sparkctl.errors import MissingTool, SparkctlError, UsageError, WorkFailed
from sparkctl.registry import select_variants
from sparkctl.resources import compare
from sparkctl.testing.cases import has_cases
from sparkctl.workflows.regs import report_regs
from sparkctl.workflows.regs_vs import numbers_of
from sparkctl.workflows.suite import SuiteOptions
from sparkctl.workflows.test import plan_suite, run_suite
from sparkctl.workflows.watch_model import Display, Memory, Problem, QuickTests, Round, WatchRequest
from sparkctl.workflows.watch_plan import Situation, describe, matters, read_situation, recall, scope_for
from sparkctl.workflows.watch_sources import SourceWatch

CASE_LIMIT_S = 20.0  # the cases of a handful take milliseconds; an edit may make a loop endless


def watch_kernel(
    request: WatchRequest,
    display: Display,
    *,
    once: bool = False,
    sources: SourceWatch | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Round:
    """Round after round until KeyboardInterrupt; with `once` the first one.

    A wrong call, and a registry that is wrong from the start, is raised: UsageError, MissingTool.
    """
    sources = sources or SourceWatch()
    situation = read_situation(request, environ)
    memory, inputs = recall(situation), situation.inputs()
    number, why = 1, tuple[str, ...]()
    began_ns = time.time_ns()
    sources.follow(scope_for(request, inputs), began_ns=began_ns)
    while True:
        display.begin(number, why)
        found, memory, inputs = run_round(request, memory, inputs, number, why, display, environ)
        display.end(found)
        if once:
            return found
        sources.follow(scope_for(request, inputs), began_ns=began_ns)
        changes = sources.wait(partial(matters, inputs=inputs, broken=found.broken))
        began_ns = time.time_ns()
        number, why = number + 1, tuple(describe(change, request) for change in changes)


def run_round(
    request: WatchRequest,
    memory: Memory,
    inputs: frozenset[Path],
    number: int,
    why: tuple[str, ...],
    display: Display,
    environ: Mapping[str, str],
) -> tuple[Round, Memory, frozenset[Path]]:
    """One rebuild: what it found, what to remember of it, and the files that it was made from."""
    began = time.monotonic()
    progress = _Counting(display)
    situation: Situation | None = None
    try:
        situation = read_situation(request, environ)
        report = report_regs(
            situation.registry,
            request.patterns,
            archs=request.archs,
            where=request.where,
            profile=request.profile,
            sets=situation.sets,
            toolchain=situation.toolchain,
            environ=environ,
            progress=progress,
        )
    except MissingTool:
        raise
    except SparkctlError as error:
        problem = Problem.of("build" if situation else "registry", error)
        inputs = inputs | situation.inputs() if situation else inputs
        found = _round(memory, memory, number, why, began, progress, inputs)
        return replace(found, problem=problem), memory, inputs
    now = numbers_of(report)
    before, memory = memory, Memory(memory.start or now, now, number)
    found = _round(before, memory, number, why, began, progress, situation.inputs())
    found = replace(
        found, left_out=tuple(f"{one.variant.name} on {one.arch.name}: {one.reason}" for one in report.left_out)
    )
    if request.cases:
        display.measured(found)
        began = time.monotonic()
        tests = run_quick_tests(situation, display, progress)
        found = replace(found, tests=tests, test_s=time.monotonic() - began, edges=progress.edges)
    inputs = situation.inputs()
    return replace(found, watched=len(inputs)), memory, inputs


def run_quick_tests(situation: Situation, display: Display, progress: _Counting) -> QuickTests:
    """A handful of cases of each variant on the emulator.

    In the standalone runner, a process of its own: a kernel that crashes or never ends takes nobody along, and the code
    that was built just now is the code that runs.
    """
    request = situation.request
    try:
        variants = select_variants(situation.registry, request.patterns, arch=request.archs[0], where=request.where)
    except UsageError as error:
        return QuickTests(note=error.message)
    if not any(has_cases(variant.kernel) for variant in variants):
        names = ", ".join(dict.fromkeys(variant.kernel.name for variant in variants))
        return QuickTests(note=f"{names} has no test cases")
    options = SuiteOptions(
        patterns=request.patterns,
        where=request.where,
        backend="emulator",
        arch=request.archs[0],
        profile=request.profile,
        sets=situation.sets,
        runner=True,
        most=request.cases,
        limit_s=CASE_LIMIT_S,
    )
    environ = situation.environ
    try:
        plan = plan_suite(situation.registry, options, environ)
        report = run_suite(situation.registry, plan, options, watcher=display.tests, progress=progress, environ=environ)
    except WorkFailed as error:
        return QuickTests(problem=Problem.of("emulator", error))
    except UsageError as error:
        return QuickTests(note=error.message)
    return QuickTests(report=report)


class _Counting:
    """A Progress that passes everything on, and counts the edges that ran."""

    def __init__(self, display: Display) -> None:
        self._told = display.progress
        self.edges = 0

    def say(self, text: str) -> None:
        self._told.say(text)

    def start(self, label: str, expected: Mapping[str, float | None], jobs: int) -> None:
        self._told.start(label, expected, jobs)

    def edge(self, name: str, ok: bool) -> None:
        self.edges += 1
        self._told.edge(name, ok)

    def stop(self) -> None:
        self._told.stop()


def _round(
    before: Memory,
    now: Memory,
    number: int,
    why: tuple[str, ...],
    began: float,
    progress: _Counting,
    inputs: frozenset[Path],
) -> Round:
    return Round(
        number=number,
        why=why,
        build_s=time.monotonic() - began,
        good=now.good,
        changes=compare(before.last or now.last, now.last),
        since_start=compare(now.start, now.last),
        edges=progress.edges,
        watched=len(inputs),
    )
