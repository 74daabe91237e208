"""When a proof may be printed and whether it proves a gain. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from sparkctl.bench.ab import SAME_WITHIN, Comparison, geometric_mean
from sparkctl.bench.results import Run, Stamp
from sparkctl.resources import Change
from sparkctl.workflows.accuracy import AccuracyReport, reasons
from sparkctl.workflows.bench import find_faults
from sparkctl.workflows.bench_ab import REVISION
from sparkctl.workflows.proof_plan import ProofPlan
from sparkctl.workflows.regs_model import KernelReport, RegsReport
from sparkctl.workflows.regs_vs import row_numbers
from sparkctl.workflows.rerun import repeat_command
from sparkctl.workflows.suite import SuiteReport

Part = Literal["tree", "tests", "accuracy", "registers", "benchmark"]
PARTS: tuple[Part, ...] = ("tests", "accuracy", "registers", "benchmark")  # in the order run
RegsPair = tuple[RegsReport, RegsReport]  # before and after: one report twice where one build has both arms
GUARD = SAME_WITHIN  # a case that is slower by this much spoils every gain


@dataclass(frozen=True, slots=True)
class Refusal:
    """A part without which nothing is proved: what is wrong with it, and the command that repairs it."""

    part: Part
    what: str
    repair: str


@dataclass(frozen=True, slots=True)
class ArmTests:
    """The cases of one arm's variants."""

    planned: int
    run: int
    failed: int

    @property
    def passed(self) -> int:
        return self.run - self.failed


@dataclass(frozen=True, slots=True)
class Gain:
    """`reasons` say why there is none."""

    reasons: tuple[str, ...]

    @property
    def proved(self) -> bool:
        return not self.reasons


def refuse_tree(stamp: Stamp) -> Refusal | None:
    """Numbers belong to a commit: none known, or sources that differ from it, prove nothing."""
    if stamp.commit is None:
        what = "no commit is known: no git history and no .sparkctl-stamp.json"
        return Refusal("tree", what, "git commit, or a stamp file from where the history is (docs/proof.md)")
    if stamp.dirty is None:
        return Refusal("tree", f"whether sources differ from commit {stamp.commit} is not known", "git status")
    if stamp.dirty:
        return Refusal("tree", f"sources differ from commit {stamp.commit}", "git commit, or git stash")
    return None


def refuse_tests(plan: ProofPlan, report: SuiteReport) -> Iterator[Refusal]:
    """Every arm has cases, all that ran passed, and the device outlived them."""
    command = repeat_command(report)
    for arm, tests in zip(plan.tested, arm_tests(plan, report), strict=True):
        if tests.failed:
            yield Refusal("tests", f"{arm.label}: {tests.failed} of {tests.run} cases failed", command)
        elif not tests.run:
            yield Refusal("tests", f"{arm.label}: no case ran", command)
    if report.not_run:
        yield Refusal("tests", f"the device was lost ahead of {', '.join(report.not_run)}", command)


def arm_tests(plan: ProofPlan, report: SuiteReport) -> tuple[ArmTests, ...]:
    """Of the arms that are tested; a variant of both counts for both."""

    def count(names: Sequence[str]) -> ArmTests:
        results = [result for result in report.results if result.variant.name in names]
        return ArmTests(
            sum(len(s.cases) for s in report.plan.selections if s.variant.name in names),
            sum(result.cases_run for result in results),
            sum(len(result.failures) for result in results),
        )

    return tuple(count(arm.variants) for arm in plan.tested)


def refuse_accuracy(plan: ProofPlan, report: AccuracyReport, command: str) -> Iterator[Refusal]:
    """Both arms are judged, against fp64 and each other, and pass."""
    for judged_arm in report.arms:
        for reason in reasons(judged_arm):
            elsewhere = plan.bench.vs is not None and judged_arm.arm.label.endswith(plan.before.label)
            repair = "name a revision that passes" if elsewhere else command
            yield Refusal("accuracy", f"{judged_arm.arm.label}: {reason}", repair)
    for kernel in plan.kernels:
        judged = [each.arm.label for each in report.arms if each.arm.label.startswith((f"{kernel},", f"{kernel}."))]
        for arm in plan.arms:
            if not any(label.endswith(f" {arm.label}") for label in judged):
                yield Refusal("accuracy", f"{kernel}, {arm.label} was not judged", command)


def accuracy_command(plan: ProofPlan) -> str:
    """Repeats the part."""
    request = plan.accuracy
    words = ["sparkctl", "accuracy", *request.patterns]
    if request.ab is not None and request.ab.name != REVISION:
        words += ["--ab", f"{request.ab.name}={','.join(request.ab.values)}"]
    words += [word for name, values in request.where.items() for word in ("--where", f"{name}={','.join(values)}")]
    words += ["--head-dim", str(request.head_dim), "--dtype", request.dtype, "--profile", request.profile]
    given = {**request.sets, **request.flags}
    words += [word for name, value in given.items() for word in ("--set", f"{name}={value}")]
    return shlex.join(words)


def refuse_registers(plan: ProofPlan, reports: RegsPair) -> Iterator[Refusal]:
    """Every variant has its numbers."""
    found: list[Refusal] = []
    for arm, report in zip(plan.arms, reports, strict=True):
        arch = report.archs[0].name
        for name in arm.variants:
            if not rows_of(report, name):
                words = ["sparkctl", "regs", name, "--arch", arch, "--profile", plan.suite.profile]
                words += ["--vs", plan.bench.vs] if plan.bench.vs is not None else []
                what = f"{name} has none on {arch}" + (f", {arm.label}" if plan.bench.vs is not None else "")
                found.append(Refusal("registers", what, shlex.join(words)))
    yield from dict.fromkeys(found)


def rows_of(report: RegsReport, variant: str) -> list[KernelReport]:
    """One for each entry function of the variant."""
    return [row for row in report.rows if row.variant is not None and row.variant.name == variant]


def register_changes(plan: ProofPlan, reports: RegsPair) -> list[Change]:
    """What the later arm costs, pair by pair; nothing for pairs that are one variant of one build."""
    old, new = reports
    return [
        Change(first if first == second else f"{first} → {second}", after.arch.name, *map(row_numbers, (before, after)))
        for first, second in plan.pairs
        if first != second or plan.bench.vs is not None
        for before, after in zip(rows_of(old, first), rows_of(new, second), strict=False)
    ]


def refuse_benchmark(plan: ProofPlan, run: Run, stamp: Stamp) -> Iterator[Refusal]:
    """Every case has its comparison, no time is impossible, and everything that a time depends on is known."""
    command = bench_command(plan)
    for failure in run.failures:
        yield Refusal("benchmark", str(failure), command)
    if run.lost is not None:
        yield Refusal("benchmark", f"the device was lost: {run.lost}", command)
    known = {(one.other.kernel, one.other.case) for one in run.comparisons}
    failed = {failure.case for failure in run.failures}
    for kernel, case in plan.timed:
        if (kernel, case) not in known and case not in failed:
            yield Refusal("benchmark", f"{kernel} on {case.label} was not measured", command)
    for fault in find_faults(run):
        yield Refusal("benchmark", fault, command)
    env = run.environment
    unknown = [name for name, value in (("driver", env.driver), ("CUDA version", env.cuda)) if not value]
    if run.clocks_mhz is None:
        unknown.append(f"clocks ({env.clocks_missing or 'not read'})")
    if unknown:
        repair = "pip install nvidia-ml-py, and a driver whose NVML answers: nvidia-smi -q -d CLOCK"
        yield Refusal("benchmark", f"unknown: {', '.join(unknown)}", repair)
    if env.stamp != stamp:
        yield Refusal("tree", "it changed while the proof was made", "the same command again, without edits meanwhile")


def bench_command(plan: ProofPlan) -> str:
    """Times the same arms alone; what narrows the cases is in the proof's own command."""
    ab = plan.bench.ab
    words = ["sparkctl", "bench", *(plan.bench.patterns or plan.kernels)]
    if plan.bench.vs is not None:
        return shlex.join([*words, "--vs", plan.bench.vs])
    return shlex.join([*words, *(["--ab", f"{ab.name}={','.join(ab.values)}"] if ab else [])])


def judge_gain(comparisons: Sequence[Comparison]) -> Gain:
    """A gain: some case is faster, the mean ratio too, none is unsure, and none is slower by GUARD."""
    found: list[str] = []
    if not any(one.verdict == "faster" for one in comparisons):
        found.append("no case is faster: what differs is inside the noise")
    found += [
        f"{one.other.kernel} on {one.other.case.label}: unsure, the interval {one.interval.low:.3f}–"
        f"{one.interval.high:.3f} is too wide for a verdict"
        for one in comparisons
        if one.verdict == "unsure"
    ]
    found += [
        f"{one.other.kernel} on {one.other.case.label}: {1 / one.ratio - 1:.1%} slower; "
        f"less than {GUARD:.0%} is let pass"
        for one in comparisons
        if one.verdict == "slower" and one.ratio <= 1 / (1 + GUARD)
    ]
    if comparisons and not found and geometric_mean([one.ratio for one in comparisons]) <= 1:
        found.append("the geometric mean of the ratios is not above 1")
    return Gain(tuple(found))


def tokens_per_second(batch: int, layers: int, time_us: float) -> float:
    """Through the attention of `layers` layers and nothing else: a call a layer gives each sequence one token."""
    return batch / (layers * time_us * 1e-6)
