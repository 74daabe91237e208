"""Made-up parts of a proof: a device, tests, accuracy, registers and times, each of which can be made to go wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from sparkctl.arch import Arch
from sparkctl.bench.ab import Bits, Comparison
from sparkctl.bench.arms import KernelCall
from sparkctl.bench.axes import DecodeCase
from sparkctl.bench.call_options import CallOptions
from sparkctl.bench.facts import DeviceFacts
from sparkctl.bench.results import Ceiling, Row, Sample, Series, Stamp
from sparkctl.bench.traffic import decode_traffic
from sparkctl.build.outputs import runtime_flags_of
from sparkctl.cli.app import main
from sparkctl.errors import SparkctlError
from sparkctl.registry import Registry, select_variants
from sparkctl.resources import ResourceUsage
from sparkctl.runtime import BuiltVariant, Library, Manifest
from sparkctl.testing.logits import LogitScore
from sparkctl.testing.precision import Precision
from sparkctl.testing.results import CaseFailure, VariantResult
from sparkctl.toolchain import Device
from sparkctl.workflows import bench, proof
from sparkctl.workflows import test as testing
from sparkctl.workflows.accuracy import AccuracyReport, ArmReport
from sparkctl.workflows.accuracy_plan import AccuracyRequest, plan_accuracy
from sparkctl.workflows.bench_plan import BenchPlan
from sparkctl.workflows.bench_request import BenchRequest
from sparkctl.workflows.regs_model import RegsReport, report_kernel, subject_of
from sparkctl.workflows.regs_vs import Selected
from sparkctl.workflows.revision import Revision
from sparkctl.workflows.suite import SuiteOptions, SuitePlan, SuiteReport

H200 = Device(0, "NVIDIA H200", Arch(9, 0), 132, 150_000_000_000, "580.95.05")
FACTS = DeviceFacts(
    name=H200.name,
    arch="sm_90",
    sm_count=132,
    l2_bytes=60 * 2**20,
    driver="580.95.05",
    cuda="13.0",
    torch="2.11.0+cu130",
    cudnn="91900",
    python="3.12.3",
    clocks_missing=None,
)
COMMIT = "fedcba98765432100123456789abcdef01234567"  # what every revision stands for
CLEAN = Stamp("0123456789ab", False)
GOOD = Precision(0.00164, 0.0031, 0.41)
SCORE = LogitScore(96, 0.9896, 0.000188, 0.00118)


@dataclass(frozen=True)
class Screen:
    code: int
    out: str
    err: str


class FakeParts:
    """Everything passes and the second arm is 1.2 times as fast, until a test says otherwise."""

    def __init__(self) -> None:
        self.facts = FACTS
        self.stamps = [CLEAN]  # one for each time it is read; the last goes on
        self.devices: tuple[Device, ...] = (H200,)
        self.failing: dict[str, int] = {}  # variant -> failed cases
        self.no_case_of: set[str] = set()  # variants
        self.precision: dict[str, Precision] = {}  # end of an arm's label -> what it gave
        self.without_registers: set[str] = set()
        self.gain: Callable[[DecodeCase], float] = lambda case: 1.2
        self.noise = 0.001  # of a sample, as a share
        self.clock: int | None = 1980
        self.bits = Bits(0, 4096, 0.0)
        self.interrupt_in: str | None = None
        self.drop_case: Callable[[DecodeCase], bool] = lambda case: False
        self.without_registers_before: set[str] = set()  # variants of the revision that --vs names
        self.broken: dict[str, SparkctlError] = {}  # label of a case -> what comparing it raises
        self.ran: list[str] = []
        self.accuracy_libraries: Mapping[str, Library] = {}  # of arms that have their own
        self.timed_libraries: Mapping[str, Library] = {}  # of every arm, in the last case
        self.opened: Mapping[str, Library] = {}

    def stamp(self, root: Path) -> Stamp:
        return self.stamps.pop(0) if len(self.stamps) > 1 else self.stamps[0]

    def _begin(self, part: str) -> None:
        if self.interrupt_in == part:
            raise KeyboardInterrupt
        self.ran.append(part)

    def run_suite(self, registry: Registry, plan: SuitePlan, options: SuiteOptions, **rest: Any) -> SuiteReport:
        self._begin("tests")
        results = []
        for selection in plan.selections:
            name, ids = selection.variant.name, tuple(case.id for case in selection.cases)
            failures = tuple(CaseFailure(case, "off") for case in ids[: self.failing.get(name, 0)])
            ran = () if name in self.no_case_of else ids
            results.append(VariantResult(selection.variant, ran, 0, failures, (), 0.5, ids[0], 1.0))
        return SuiteReport(plan, options, Path("build"), tuple(results), (), CLEAN, "nvcc 13.0.88", "d1")

    def run_accuracy(self, registry: Registry, request: AccuracyRequest, **rest: Any) -> AccuracyReport:
        self._begin("accuracy")
        self.accuracy_libraries = rest["others"]
        arms = []
        for group in plan_accuracy(registry, request, rest["arch"]).groups:
            for number, arm in enumerate(group):
                rest["at_arm"](len(arms) + 1, 4, arm.label)
                given = [each for end, each in self.precision.items() if arm.label.endswith(end)]
                arms.append(ArmReport(arm, given[0] if given else GOOD, Bits(0, 6144, 0.0) if number else None, SCORE))
        plain = {True: (Precision(0.00218, 0.0034, 0.6), SCORE)}
        return AccuracyReport(request, rest["backend"], rest["device"], tuple(arms), plain, CLEAN, "nvcc 13.0.88")

    def report_regs(self, registry: Registry, patterns: Sequence[str], **rest: Any) -> RegsReport:
        self._begin("registers")
        arch = rest["archs"][0]
        rows = []
        for variant in select_variants(registry, patterns):
            registers = 64 + 8 * int(dict(variant.values).get("stages", 0))
            usage = ResourceUsage("f", "f()", arch.name, "entry", registers, 0, 0, 0, 0, 640, 1, 0)
            if variant.name not in self.without_registers:
                rows.append(report_kernel(subject_of(variant), arch, usage, (), Path("log")))
        return RegsReport("nvcc 13.0.88", "release", {}, (arch,), tuple(rows), ())

    def report_revision(
        self, revision: Revision, selected: Selected, **rest: Any
    ) -> tuple[RegsReport, tuple[str, ...]]:
        """Eight registers more than here."""
        rows = []
        here = self.report_regs(revision.registry, selected.patterns, archs=selected.archs)
        self.ran.pop()
        for variant in select_variants(revision.registry, selected.patterns):
            registers = 72 + 8 * int(dict(variant.values).get("stages", 0))
            usage = ResourceUsage("f", "f()", "sm_90", "entry", registers, 0, 0, 0, 0, 640, 1, 0)
            if variant.name not in self.without_registers_before:
                rows.append(report_kernel(subject_of(variant), selected.archs[0], usage, (), Path("log")))
        return replace(here, rows=tuple(rows)), ()

    def open_others(
        self, registry: Registry, request: BenchRequest, plan: BenchPlan, arch: Arch, progress: object
    ) -> dict[str, Library]:
        if request.vs is None or request.ab is None:
            return {}
        self._begin("baseline")
        self.opened = {request.ab.labels[0]: self._library(registry, plan, arch)}
        return self.opened

    def open_bench(self, registry: Registry, request: object, plan: BenchPlan, arch: Arch, progress: object) -> Any:
        self._begin("benchmark")
        return self._library(registry, plan, arch), self

    def _library(self, registry: Registry, plan: BenchPlan, arch: Arch) -> Library:
        built = tuple(
            BuiltVariant(
                name=v.name,
                kernel=v.kernel.name,
                family=v.kernel.family,
                values=dict(v.values),
                accepts={name: (span.start, span.stop) for name, span in v.kernel.accepts.items()},
                block_threads=v.block_threads,
                dynamic_smem_bytes=v.dynamic_smem_bytes,
                static_smem_bytes=0,
                registers=64,
                blocks_per_sm=2,
            )
            for v in plan.variants
        )
        flags = runtime_flags_of(registry, arch, "release")
        manifest = Manifest("libsparkctl.so", "cuda", "sm_90", "release", {}, "d1", "nvcc 13.0.88", built, flags)
        return Library(Path("build"), manifest, None, {v.name: i for i, v in enumerate(built)})

    def measure(self, case: DecodeCase, calls: Sequence[KernelCall]) -> tuple[Row, ...]:
        raise AssertionError("a proof compares")

    def measure_gemm(self) -> None:
        """A device too small for it."""

    def compare(
        self, case: DecodeCase, arms: Sequence[tuple[str, KernelCall]], options: Sequence[CallOptions] = ()
    ) -> tuple[tuple[Row, ...], tuple[Comparison, ...]]:
        if self.interrupt_in == case.label:
            raise KeyboardInterrupt
        self.timed_libraries = {label: call.library for label, call in arms}
        if case.label in self.broken:
            raise self.broken[case.label]
        before_us = decode_traffic(case).bytes / 2.2e6 + 4
        times = (before_us, before_us / self.gain(case))
        rows = tuple(self._row(case, call, label, time) for (label, call), time in zip(arms, times, strict=True))
        found = (Comparison(rows[0], rows[1], self.bits),)
        return rows, () if self.drop_case(case) else found

    def _row(self, case: DecodeCase, call: KernelCall, label: str, time_us: float) -> Row:
        traffic = decode_traffic(case)
        turn = 3 if label.endswith(("0", "stages=1")) else 5  # the arms' noise is not in step
        samples = tuple(Sample(time_us * (1 + self.noise * (i % turn - turn // 2)), self.clock) for i in range(60))
        series = Series(samples, calls=100, stop="precise")
        ceiling = Ceiling("stream_read.u4", traffic.bytes, replace(series, samples=(Sample(traffic.bytes / 4.6e6),)))
        variant = call.plan.variant
        splits, name = call.plan.num_splits, variant.partition(".")[0]
        return Row(case, name, variant, splits, traffic, 9, series, series, ceiling, (), "0.50", label)


Prove = Callable[..., Screen]


def prove_with(parts: FakeParts, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Prove:
    """A call of `sparkctl proof` with the made-up parts in place."""
    for module in (proof, testing):
        monkeypatch.setattr(module, "find_devices", lambda: parts.devices)
    for module in (proof, bench):
        monkeypatch.setattr(module, "read_stamp", parts.stamp)
    monkeypatch.setattr(proof, "find_cuda_device", lambda: "cuda:0")
    monkeypatch.setattr(proof, "run_suite", parts.run_suite)
    monkeypatch.setattr(proof, "run_accuracy", parts.run_accuracy)
    monkeypatch.setattr(proof, "report_regs", parts.report_regs)
    monkeypatch.setattr(proof, "report_revision", parts.report_revision)
    monkeypatch.setattr(proof, "open_arm_libraries", parts.open_others)
    monkeypatch.setattr(
        proof, "open_revision", lambda registry, name, _: Revision(name, COMMIT, registry, Path("build"))
    )
    monkeypatch.setattr(bench, "open_cuda_bench", parts.open_bench)

    def call(*words: str, columns: int | None = 80, environ: Mapping[str, str] | None = None) -> Screen:
        for name, value in (environ or {"NO_COLOR": "1"}).items():
            monkeypatch.setenv(name, value)
        if columns is None:
            monkeypatch.delenv("COLUMNS", raising=False)
        else:
            monkeypatch.setenv("COLUMNS", str(columns))
        code = main(["proof", *words])
        captured = capsys.readouterr()
        return Screen(code, "\n".join(line.rstrip() for line in captured.out.splitlines()), captured.err)

    return call
