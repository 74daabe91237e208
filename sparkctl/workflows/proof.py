"""A proof from the request to the table: tests, accuracy, registers and the interleaved benchmark of two arms."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from sparkctl.arch import Arch
from sparkctl.bench.facts import find_cuda_device
from sparkctl.bench.results import Run, Stamp
from sparkctl.build import Progress
from sparkctl.errors import MissingTool, SparkctlError, UsageError, WorkFailed
from sparkctl.registry import Registry
from sparkctl.runtime import Library
from sparkctl.runtime.manifest import Backend
from sparkctl.toolchain import Toolchain, find_devices
from sparkctl.workflows.accuracy import AccuracyReport, run_accuracy
from sparkctl.workflows.bench import OpenBench, run_bench
from sparkctl.workflows.bench_vs import open_arm_libraries
from sparkctl.workflows.proof_gate import (
    Gain,
    Part,
    Refusal,
    RegsPair,
    accuracy_command,
    bench_command,
    judge_gain,
    refuse_accuracy,
    refuse_benchmark,
    refuse_registers,
    refuse_tests,
    refuse_tree,
)
from sparkctl.workflows.proof_plan import ProofPlan, ProofRequest, plan_proof
from sparkctl.workflows.regs import report_regs
from sparkctl.workflows.regs_vs import Selected, report_revision
from sparkctl.workflows.rerun import conditions
from sparkctl.workflows.revision import Revision, open_revision
from sparkctl.workflows.stamp import read_stamp
from sparkctl.workflows.suite import SuiteReport, Watcher
from sparkctl.workflows.test import plan_suite, run_suite


@dataclass(frozen=True, slots=True)
class ProofDevice:
    """Where everything runs."""

    name: str
    arch: Arch
    backend: Backend = "cuda"


@dataclass(frozen=True, slots=True)
class Proof:
    """Every part, each of both arms, and what they come to."""

    request: ProofRequest
    plan: ProofPlan
    stamp: Stamp
    tests: SuiteReport
    accuracy: AccuracyReport
    registers: RegsPair
    run: Run
    gain: Gain
    baseline: Revision | None = None  # whose library is the first arm


class ProofWatcher(Protocol):
    """Told how the parts go on."""

    @property
    def suite(self) -> Watcher: ...

    @property
    def build(self) -> Progress: ...

    def begin(self, part: Part) -> None: ...

    def case(self, number: int, total: int, label: str) -> None: ...

    def end(self, part: Part) -> None: ...


def find_proof_device() -> ProofDevice:
    """The first device, if torch sees it too; MissingTool without one."""
    devices = find_devices()
    if not devices:
        raise MissingTool(
            "proof times on a CUDA device and this machine shows none",
            hint="sparkctl test, sparkctl accuracy and sparkctl regs --vs do the other parts without one",
        )
    find_cuda_device()
    return ProofDevice(devices[0].name, devices[0].arch)


def check_tree(registry: Registry) -> Stamp:
    """The commit that the proof is of; UsageError where sources differ from it or there is none."""
    stamp = read_stamp(registry.root)
    refusal = refuse_tree(stamp)
    if refusal is not None:
        raise UsageError(f"no proof: {refusal.part}: {refusal.what}", hint=refusal.repair)
    return stamp


def run_proof(
    registry: Registry,
    request: ProofRequest,
    *,
    device: ProofDevice,
    toolchain: Toolchain,
    watcher: ProofWatcher,
    environ: Mapping[str, str] = os.environ,
    open_bench: OpenBench | None = None,
) -> Proof:
    """All parts in order of their cost; nothing is timed unless the others pass.

    UsageError for a tree that differs from its commit, WorkFailed naming each part that is missing or fails.
    """
    plan = plan_proof(registry, request, device.arch, device.backend)
    stamp = check_tree(registry)
    baseline = None if request.vs is None else open_revision(registry, request.vs, environ)
    others = _baseline_libraries(registry, plan, device, watcher)
    tests = _tests(registry, plan, watcher, environ)
    accuracy = _accuracy(registry, plan, device, watcher, environ, others)
    registers = _registers(registry, plan, baseline, device, toolchain, watcher, environ)
    raise_refusals(
        [
            *refuse_tests(plan, tests),
            *refuse_accuracy(plan, accuracy, accuracy_command(plan)),
            *refuse_registers(plan, registers),
        ]
    )
    with _part("benchmark", watcher, bench_command(plan)):
        run = run_bench(
            registry,
            plan.bench,
            at_case=watcher.case,
            build_progress=watcher.build,
            find_arch=lambda: device.arch,
            open_bench=open_bench,
            open_others=lambda *_: others,
        )
        if run.interrupted:
            raise KeyboardInterrupt
    raise_refusals([*refuse_benchmark(plan, run, stamp)])
    return Proof(request, plan, stamp, tests, accuracy, registers, run, judge_gain(run.comparisons), baseline)


def _tests(registry: Registry, plan: ProofPlan, watcher: ProofWatcher, environ: Mapping[str, str]) -> SuiteReport:
    command = " ".join(["sparkctl test", *plan.suite.patterns, *conditions(plan.suite)])
    with _part("tests", watcher, command):
        suite = plan_suite(registry, plan.suite, environ)
        return run_suite(registry, suite, plan.suite, watcher=watcher.suite, progress=watcher.build, environ=environ)


def _baseline_libraries(
    registry: Registry, plan: ProofPlan, device: ProofDevice, watcher: ProofWatcher
) -> Mapping[str, Library]:
    """Of the first arm, where it is another revision: ahead of all else, since it may not build."""
    try:
        return open_arm_libraries(registry, plan.bench, plan.built, device.arch, watcher.build)
    except SparkctlError as error:
        raise type(error)(f"no proof: {error.message}", hint=error.hint) from error


def _accuracy(
    registry: Registry,
    plan: ProofPlan,
    device: ProofDevice,
    watcher: ProofWatcher,
    environ: Mapping[str, str],
    others: Mapping[str, Library],
) -> AccuracyReport:
    with _part("accuracy", watcher, accuracy_command(plan)):
        return run_accuracy(
            registry,
            plan.accuracy,
            backend=device.backend,
            device=device.name,
            arch=device.arch,
            at_arm=watcher.case,
            progress=watcher.build,
            environ=environ,
            others=others,
        )


def _registers(
    registry: Registry,
    plan: ProofPlan,
    baseline: Revision | None,
    device: ProofDevice,
    toolchain: Toolchain,
    watcher: ProofWatcher,
    environ: Mapping[str, str],
) -> RegsPair:
    vs = [] if plan.bench.vs is None else ["--vs", plan.bench.vs]
    with _part("registers", watcher, " ".join(["sparkctl regs", *plan.variants, *vs])):
        report = report_regs(
            registry,
            plan.variants,
            archs=[device.arch],
            profile=plan.suite.profile,
            sets=plan.suite.sets,
            toolchain=toolchain,
            environ=environ,
            progress=watcher.build,
        )
        if baseline is None:
            return report, report
        selected = Selected(plan.variants, [device.arch], {}, plan.suite.profile, plan.suite.sets)
        before, notes = report_revision(
            baseline, selected, toolchain=toolchain, environ=environ, progress=watcher.build
        )
        if before is None:
            raise UsageError("; ".join(notes), hint="name a later revision")
        return before, report


@contextlib.contextmanager
def _part(part: Part, watcher: ProofWatcher, command: str) -> Iterator[None]:
    """An error inside names the part, and the command that runs it alone where it has no advice of its own."""
    watcher.begin(part)
    try:
        yield
    except SparkctlError as error:
        raise type(error)(f"no proof: {part}: {error.message}", hint=error.hint or command) from error
    watcher.end(part)


def raise_refusals(refusals: list[Refusal]) -> None:
    """One error that names every part and its repair; nothing where there are none."""
    if refusals:
        lines = [f"{refusal.part}: {refusal.what}" for refusal in refusals]
        repairs = dict.fromkeys(f"{refusal.part}: {refusal.repair}" for refusal in refusals)
        raise WorkFailed("\n".join(["no proof while a part is missing or fails", *lines]), hint="\n".join(repairs))
