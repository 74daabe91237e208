"""What `sparkctl proof` is asked for, and what it therefore tests, judges, reports and times. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sparkctl.arch import Arch
from sparkctl.bench.ab import Ab
from sparkctl.bench.arms import shape_of
from sparkctl.bench.axes import DecodeCase
from sparkctl.errors import UsageError
from sparkctl.ops.flags import AXIS_OF_FLAG
from sparkctl.ops.plan import choose_variant
from sparkctl.registry import Registry, Variant
from sparkctl.runtime.manifest import Backend
from sparkctl.workflows.accuracy_plan import AccuracyRequest
from sparkctl.workflows.bench_plan import BenchPlan, Job, plan_bench
from sparkctl.workflows.bench_request import BenchRequest, PlannedArm, described
from sparkctl.workflows.suite import SuiteOptions

LAYERS = 32  # of the model whose attention the rate counts, as in an 8-billion-parameter Llama
TOKENS = 128


@dataclass(frozen=True, slots=True)
class ProofRequest:
    """What was asked for. `ab` has two values: before and after."""

    ab: Ab
    cases: tuple[DecodeCase, ...]
    patterns: tuple[str, ...] = ()
    where: Mapping[str, Sequence[str]] = field(default_factory=dict)  # axes other than dtype and head_dim
    profile: str = "release"
    sets: Mapping[str, str] = field(default_factory=dict)  # flags that the build reads
    flags: Mapping[str, str] = field(default_factory=dict)  # flags that are read at each call
    pages_given: bool = False
    budget_s: float = 3.0
    full: bool = False  # the larger set of test cases
    layers: int = LAYERS
    tokens: int = TOKENS
    vs: str | None = None  # a git revision, which is the first arm; `ab` then holds the arms' names
    command: str = "sparkctl proof"


@dataclass(frozen=True, slots=True)
class ArmSubject:
    """`FAPIPE=0`, and the variants that run under it."""

    label: str
    variants: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProofPlan:
    """The parts, all of the same two arms."""

    before: ArmSubject
    after: ArmSubject
    kernels: tuple[str, ...]
    suite: SuiteOptions
    accuracy: AccuracyRequest
    bench: BenchRequest
    built: BenchPlan  # what the benchmark's libraries hold
    timed: tuple[tuple[str, DecodeCase], ...]  # kernel and case of each comparison
    pairs: tuple[tuple[str, str], ...]  # the variants that are held against each other, each pair once

    @property
    def arms(self) -> tuple[ArmSubject, ArmSubject]:
        return self.before, self.after

    @property
    def tested(self) -> tuple[ArmSubject, ...]:
        """Those whose cases run: of another revision none, its tests are its own."""
        return self.arms if self.bench.vs is None else (self.after,)

    @property
    def variants(self) -> tuple[str, ...]:
        """Of both arms, each once."""
        return tuple(dict.fromkeys((*self.before.variants, *self.after.variants)))


def plan_proof(registry: Registry, request: ProofRequest, arch: Arch, backend: Backend = "cuda") -> ProofPlan:
    """UsageError where the arms are not two of one build, or where a case has no kernel that they reach."""
    if len(request.ab.values) != 2:
        given = f"--ab {request.ab.name}={','.join(request.ab.values)}"
        raise UsageError(f"{given}: a proof holds two values", hint="before and after: --ab NAME=BEFORE,AFTER")
    flag = registry.flags.get(request.ab.name)
    if flag is not None and flag.kind != "runtime":
        raise UsageError(
            f"--ab {flag.name}: a flag of kind {flag.kind} is compiled in, and a proof tests one build",
            hint=f"sparkctl test, accuracy and regs with --set {flag.name}=VALUE for each value, sparkctl bench --ab",
        )
    bench = BenchRequest(
        cases=request.cases,
        patterns=request.patterns,
        where=request.where,
        peers=(),
        budget_s=request.budget_s,
        profile=request.profile,
        sets=request.sets,
        flags=request.flags,
        pages_given=request.pages_given,
        ab=request.ab,
        vs=request.vs,
        command=request.command,
    )
    planned = plan_bench(registry, bench, arch)
    ran = [(job.case, pair_of(job, planned.variants)) for job in planned.jobs]
    pairs = tuple(dict.fromkeys(pair for _, pair in ran))
    before, after = (
        ArmSubject(label, tuple(dict.fromkeys(pair[index] for pair in pairs)))
        for index, label in enumerate(request.ab.labels)
    )
    kernels = tuple(dict.fromkeys(name.partition(".")[0] for pair in pairs for name in pair))
    suite = SuiteOptions(
        patterns=tuple(dict.fromkeys(name for pair in pairs for name in pair)),
        backend=backend,
        arch=arch,
        profile=request.profile,
        sets=request.sets,
        full=request.full,
    )
    case = request.cases[0]
    accuracy = AccuracyRequest(
        patterns=kernels if request.vs is None else suite.patterns,
        where=request.where,
        head_dim=case.head_dim,
        dtype=case.dtype,
        profile=request.profile,
        sets=request.sets,
        flags=request.flags,
        ab=request.ab,
    )
    timed = tuple((second.partition(".")[0], case) for case, (_, second) in ran)
    return ProofPlan(before, after, kernels, suite, accuracy, bench, planned, timed, pairs)


def pair_of(job: Job, variants: Sequence[Variant]) -> tuple[str, str]:
    """What the arms of one case run."""
    before, after = (variant_of(job, arm, variants) for arm in job.arms)
    return before, after


def variant_of(job: Job, arm: PlannedArm, variants: Sequence[Variant]) -> str:
    """The arm's own variant, else what the operator chooses for the case among those that the arm's flags leave.

    UsageError where they leave none.
    """
    if arm.variant is not None:
        return arm.variant
    left = [described(v) for v in variants if v.kernel.name == arm.kernel and _heeds(v, arm.flags)]
    chosen = choose_variant(left, shape_of(job.case), family=job.case.operator, kernel=arm.kernel)
    if chosen is None:
        raise UsageError(f"{job.case.label}: no variant of {arm.kernel} takes it with {arm.label}")
    return chosen.name


def _heeds(variant: Variant, flags: Mapping[str, str]) -> bool:
    """Whether the flags that decide an axis allow the variant."""
    values = dict(variant.values)
    axes = [(AXIS_OF_FLAG[name], value) for name, value in flags.items() if name in AXIS_OF_FLAG]
    return all(values.get(axis) in (None, of.get(value)) for (axis, of), value in axes)
