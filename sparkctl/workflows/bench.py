"""A benchmark from the request to the rows: what to run, built and loaded, measured, checked and kept."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sparkctl import __version__
from sparkctl.arch import Arch
from sparkctl.bench.arms import READ_KERNEL, plan_case
from sparkctl.bench.axes import DecodeCase
from sparkctl.bench.facts import DeviceFacts, find_cuda_device
from sparkctl.bench.record import save_run
from sparkctl.bench.results import CEILING_TOLERANCE, Environment, Row, Run
from sparkctl.bench.session import Verdict, open_session
from sparkctl.build import Progress, ensure_built
from sparkctl.errors import MissingTool, UsageError, WorkFailed
from sparkctl.ops.call import DecodeCall
from sparkctl.registry import Range, Registry, Variant, select_variants
from sparkctl.runtime import Library, load_library
from sparkctl.toolchain import find_devices
from sparkctl.workflows.stamp import read_stamp

if TYPE_CHECKING:
    import torch

COMBINE_KERNEL = "attn_combine"
MAX_BATCH = 65_535  # CUDA C++ Programming Guide, compute capabilities: a grid's z


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """What was asked for. Without patterns the operator chooses the kernel of each case, as a program would get it."""

    cases: tuple[DecodeCase, ...]
    patterns: tuple[str, ...] = ()  # kernels, globs, variants
    where: Mapping[str, Sequence[str]] = field(default_factory=dict)  # axes other than dtype and head_dim
    peers: tuple[str, ...] = ("sdpa",)
    budget_s: float = 3.0  # of sampling for each row
    profile: str = "release"
    sets: Mapping[str, str] = field(default_factory=dict)
    command: str = "sparkctl bench"


@dataclass(frozen=True, slots=True)
class Job:
    """One case; `variants` empty is the operator's choice among those in the library that `where` allows."""

    case: DecodeCase
    variants: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """The jobs in order, and every variant that the library must hold for them."""

    jobs: tuple[Job, ...]
    variants: tuple[Variant, ...]


class Session(Protocol):
    """What measures: a CUDA device, or in tests something made up."""

    @property
    def facts(self) -> DeviceFacts: ...

    def measure(self, case: DecodeCase, calls: Sequence[DecodeCall]) -> tuple[Row, ...]: ...


# Builds and loads the library of a plan and opens the session on it.
OpenBench = Callable[[Registry, BenchRequest, BenchPlan, Arch, Progress | None], tuple[Library, Session]]


def plan_bench(registry: Registry, request: BenchRequest, arch: Arch) -> BenchPlan:
    """Which variants each case runs on `arch`. Pure; UsageError when a case has none."""
    narrowed = bool(request.patterns or request.where)
    patterns = request.patterns or tuple(k.name for k in registry.kernels.values() if k.family == "decode")
    jobs: list[Job] = []
    needed: dict[str, Variant] = {}
    for case in request.cases:
        shape = {"dtype": [case.dtype], "head_dim": [str(case.head_dim)]}
        chosen = select_variants(registry, patterns, arch=arch, where={**request.where, **shape})
        decodes = [variant for variant in chosen if variant.kernel.family == "decode"]
        if not decodes:
            names = ", ".join(dict.fromkeys(variant.kernel.name for variant in chosen))
            raise UsageError(f"bench has no cases for {names}", hint="it measures the kernels of family decode")
        check_accepted(case, decodes)
        jobs.append(Job(case, tuple(variant.name for variant in decodes) if narrowed else ()))
        helpers = select_variants(registry, [COMBINE_KERNEL, READ_KERNEL], arch=arch, where=shape)
        needed |= {variant.name: variant for variant in (*decodes, *helpers)}
    return BenchPlan(tuple(jobs), tuple(needed.values()))


def check_accepted(case: DecodeCase, decodes: Sequence[Variant]) -> None:
    """UsageError where none of the kernels accepts the case; before anything is built for it."""
    values = {"group": case.group, "qo_len": case.qo_len, "kv_len": case.kv_len}
    kernels = {variant.kernel.name: variant.kernel for variant in decodes}
    refusals = [
        f"{kernel.name} takes {name} {span.start}..{'' if span.stop is None else span.stop}, not {values[name]}"
        for kernel in kernels.values()
        for name, span in kernel.accepts.items()
        if name in values and not _holds(span, values[name])
    ]
    if len({refusal.split()[0] for refusal in refusals}) == len(kernels):
        raise UsageError(f"{case.label}: no decode kernel accepts it", hint="\n".join(refusals))
    if case.batch > MAX_BATCH:
        raise UsageError(f"{case.label}: batch is at most {MAX_BATCH}", hint="a sequence is a row of the grid")


def _holds(span: Range, value: int) -> bool:
    return span.start <= value and (span.stop is None or value <= span.stop)


def run_bench(
    registry: Registry,
    request: BenchRequest,
    *,
    at_case: Callable[[int, int, str], None],
    build_progress: Progress | None = None,
    find_arch: Callable[[], Arch] | None = None,
    open_bench: OpenBench | None = None,
) -> Run:
    """Every case measured; `at_case(number, total, label)` is told before each.

    MissingTool without a device; WorkFailed when a build fails or an output is wrong.
    """
    arch = (find_arch or find_bench_arch)()
    plan = plan_bench(registry, request, arch)
    library, session = (open_bench or open_cuda_bench)(registry, request, plan, arch, build_progress)
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    rows: list[Row] = []
    for number, job in enumerate(plan.jobs, 1):
        at_case(number, len(plan.jobs), job.case.label)
        rows += session.measure(job.case, plan_calls_of(job, library, session.facts.sm_count))
    environment = describe_environment(registry.root, request, library, session.facts)
    return Run(environment, request.command, started, tuple(rows))


def plan_calls_of(job: Job, library: Library, device_sm_count: int) -> list[DecodeCall]:
    """The planned calls of a job, one per variant."""
    return [
        plan_case(library, job.case, variant=variant, device_sm_count=device_sm_count)
        for variant in job.variants or (None,)
    ]


def find_bench_arch() -> Arch:
    """The arch of the first device; MissingTool when there is none."""
    devices = find_devices()
    if not devices:
        raise MissingTool(
            "bench needs a CUDA device and this machine shows none",
            hint="sparkctl bench --estimate H200 prints floor times without one",
        )
    return devices[0].arch


def open_cuda_bench(
    registry: Registry, request: BenchRequest, plan: BenchPlan, arch: Arch, progress: Progress | None
) -> tuple[Library, Session]:
    """The device in use. Torch is asked for it before anything is built."""
    device = find_cuda_device()
    folder = ensure_built(
        registry,
        plan.variants,
        arch=arch,
        backend="cuda",
        profile=request.profile,
        sets=request.sets,
        progress=progress,
    )
    library = load_library(folder)
    session = open_session(library, device, peers=request.peers, verify=verify_outputs, budget_s=request.budget_s)
    return library, session


def verify_outputs(
    case: DecodeCase, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, outputs: Sequence[torch.Tensor]
) -> list[Verdict]:
    """Each output against the fp64 reference on the same inputs, by the tolerance of the tests.

    One sequence at a time, since fp64 copies of a whole batch might not fit.
    """
    from sparkctl.testing.compare import compare_outputs
    from sparkctl.testing.reference import attention_reference, plain_emulation

    verdicts = [Verdict(0.0, "nothing to compare")] * len(outputs)
    for b in range(case.batch):
        one = slice(b, b + 1)
        expected, lse = attention_reference(q[one], k[one], v[one], causal=case.causal)
        plain = plain_emulation(q[one], k[one], v[one], causal=case.causal)
        for index, out in enumerate(outputs):
            found = compare_outputs(
                out[one], None, expected_out=expected, expected_lse=lse, plain_out=plain, dtype=case.dtype
            )
            if found.worst >= verdicts[index].worst:
                text = f"sequence {b}: {found.mismatch}" if found.mismatch else f"{found.worst:.2f} of what is allowed"
                verdicts[index] = Verdict(found.worst, text)
    return verdicts


def describe_environment(root: Path, request: BenchRequest, library: Library, facts: DeviceFacts) -> Environment:
    """Everything a number depends on."""
    return Environment(
        gpu=facts.name,
        arch=facts.arch,
        sm_count=facts.sm_count,
        l2_bytes=facts.l2_bytes,
        driver=facts.driver,
        cuda=facts.cuda,
        torch=facts.torch,
        cudnn=facts.cudnn,
        python=facts.python,
        clocks_missing=facts.clocks_missing,
        sparkctl=__version__,
        stamp=read_stamp(root),
        compiler=library.manifest.compiler,
        profile=request.profile,
        flags=tuple(sorted(library.manifest.flags.items())),
        library_digest=library.manifest.digest,
    )


def find_faults(run: Run) -> list[str]:
    """Results that cannot be: faster than reading the same bytes, by more than the tolerance."""
    return [
        f"{row.variant} on {row.case.label}: {row.tbps:.3g} TB/s is {row.ceiling_share:.0%} of the read ceiling "
        f"({row.ceiling.tbps:.3g} TB/s); more than {CEILING_TOLERANCE:.0%} is a fault of the measurement"
        for row in run.rows
        if row.beats_ceiling
    ]


def keep_run(run: Run, name: str, root: Path) -> Path:
    """Save under benchmarks/results/<gpu>/; WorkFailed for a run with faults, which must not become a record."""
    faults = find_faults(run)
    if faults:
        raise WorkFailed("not saved: " + "; ".join(faults))
    return save_run(run, name, root)
