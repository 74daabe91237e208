"""A benchmark from the request to the rows: what to run, built and loaded, measured, checked and kept."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from sparkctl import __version__
from sparkctl.arch import Arch
from sparkctl.bench.ab import Comparison
from sparkctl.bench.arms import KernelCall, plan_case
from sparkctl.bench.axes import DecodeCase
from sparkctl.bench.call_options import CallOptions
from sparkctl.bench.facts import DeviceFacts, find_cuda_device
from sparkctl.bench.faults import DeviceLost
from sparkctl.bench.record import save_run
from sparkctl.bench.results import CEILING_TOLERANCE, Environment, Failure, GemmCeiling, Row, Run, Sampling
from sparkctl.bench.session import open_session
from sparkctl.bench.statistics import StopRule
from sparkctl.build import Progress, ensure_built
from sparkctl.errors import MissingTool, SparkctlError, UsageError, WorkFailed
from sparkctl.interrupts import check_interrupt
from sparkctl.registry import Registry
from sparkctl.runtime import Library, load_library
from sparkctl.toolchain import find_devices
from sparkctl.workflows.bench_plan import BenchPlan, Job, plan_bench
from sparkctl.workflows.bench_request import BenchRequest, PlannedArm
from sparkctl.workflows.bench_verify import verify_outputs
from sparkctl.workflows.bench_vs import OpenLibraries, open_arm_libraries
from sparkctl.workflows.stamp import read_stamp


class Session(Protocol):
    """What measures: a CUDA device, or in tests something made up."""

    @property
    def facts(self) -> DeviceFacts: ...

    def measure_gemm(self) -> GemmCeiling | None: ...

    def measure(self, case: DecodeCase, calls: Sequence[KernelCall]) -> Iterable[Row | Failure]: ...

    def compare(
        self, case: DecodeCase, arms: Sequence[tuple[str, KernelCall]], options: Sequence[CallOptions] = ()
    ) -> tuple[tuple[Row, ...], tuple[Comparison, ...]]: ...


# Builds and loads the library of a plan and opens the session on it.
OpenBench = Callable[[Registry, BenchRequest, BenchPlan, Arch, Progress | None], tuple[Library, Session]]


def run_bench(
    registry: Registry,
    request: BenchRequest,
    *,
    at_case: Callable[[int, int, str], None],
    build_progress: Progress | None = None,
    find_arch: Callable[[], Arch] | None = None,
    open_bench: OpenBench | None = None,
    open_others: OpenLibraries | None = None,
) -> Run:
    """Every case measured; `at_case(number, total, label)` is told before each.

    A case that cannot be measured is a failure of the run, and the others follow; Ctrl-C and a lost device end it with
    the rows so far. MissingTool without a device; WorkFailed when a build fails.
    """
    arch = (find_arch or find_bench_arch)()
    plan = plan_bench(registry, request, arch)
    library, session = (open_bench or open_cuda_bench)(registry, request, plan, arch, build_progress)
    others = (open_others or open_arm_libraries)(registry, request, plan, arch, build_progress)
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    # Before anything is measured: after Ctrl-C no more programs are run.
    environment = describe_environment(registry.root, request, library, session.facts)
    found = _Found()
    try:
        environment = _with_gemm(environment, session)
        for number, job in enumerate(plan.jobs, 1):
            at_case(number, len(plan.jobs), job.case.label)
            _measure_job(request, job, library, others, session, found)
            check_interrupt()
    except KeyboardInterrupt:
        found.interrupted = True
    except DeviceLost as error:
        found.lost = error.message
    return Run(
        environment,
        request.command,
        started,
        tuple(found.rows),
        request.ab,
        tuple(found.comparisons),
        failures=tuple(found.failures),
        planned=sum(len(job.arms) for job in plan.jobs),
        interrupted=found.interrupted,
        lost=found.lost,
        sampling=Sampling(StopRule(), request.budget_s),
    )


def _with_gemm(environment: Environment, session: Session) -> Environment:
    """The ceiling of the tensor cores beside the device, or why there is none."""
    try:
        return replace(environment, gemm=session.measure_gemm())
    except DeviceLost:
        raise
    except WorkFailed as error:
        check_interrupt()
        return replace(environment, gemm_missing=error.message)


@dataclass(slots=True)
class _Found:
    """What a run has so far."""

    rows: list[Row] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    interrupted: bool = False
    lost: str | None = None


def _measure_job(
    request: BenchRequest,
    job: Job,
    library: Library,
    others: Mapping[str, Library],
    session: Session,
    found: _Found,
) -> None:
    """Adds what one case gives, or why it gives nothing."""
    try:
        calls = plan_calls_of(job, library, session.facts.sm_count, others)
        if request.ab is None:
            for one in session.measure(job.case, calls):
                (found.failures if isinstance(one, Failure) else found.rows).append(one)  # type: ignore[arg-type]
        else:
            labels = [arm.label for arm in job.arms]
            options = [arm.options for arm in job.arms]
            rows, comparisons = session.compare(job.case, list(zip(labels, calls, strict=True)), options)
            found.rows += rows
            found.comparisons += comparisons
    except DeviceLost:
        raise
    except (WorkFailed, UsageError) as error:
        check_interrupt()
        found.failures.append(Failure(job.case, error.message.removeprefix(job.case.label).lstrip(": ")))


def plan_calls_of(
    job: Job, library: Library, device_sm_count: int, others: Mapping[str, Library] | None = None
) -> list[KernelCall]:
    """The planned calls of a job, one per arm; `others` are the libraries of arms, by label, that have their own."""

    def plan(case: DecodeCase, arm: PlannedArm) -> KernelCall:
        return plan_case(
            (others or {}).get(arm.label, library),
            case if arm.num_splits is None else replace(case, num_splits=arm.num_splits),
            variant=arm.variant,
            kernel=arm.kernel,
            flags=arm.flags,
            options=arm.options,
            device_sm_count=device_sm_count,
        )

    case = job.case
    if job.reference is not None and not case.prefill:
        case = replace(case, num_splits=plan(case, job.reference).plan.num_splits)
    return [plan(case, arm) for arm in job.arms]


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
        flags=tuple(sorted({**library.manifest.flags, **request.flags}.items())),
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


def judge_run(run: Run, *, listed: bool) -> SparkctlError | None:
    """What the command ends with besides Ctrl-C: a lost device, failed rows, rows that cannot be; None if all is well.

    `listed`: the failed rows stand on the screen already. MissingTool where no device can be reached any more.
    """
    if run.lost is not None:
        here = bool(find_devices())
        kept = f"{len(run.rows)} of {run.planned} rows were measured before"
        if here:
            return WorkFailed(run.lost, hint=f"{kept}; run it again for the others")
        return MissingTool(f"{run.lost}; no CUDA device can be reached any more", hint=f"{kept}; nvidia-smi says more")
    faults, lines = find_faults(run), [str(failure) for failure in run.failures]
    if lines and listed:
        lines = [f"{run.planned - len(run.rows)} of {run.planned} rows failed"]
    if not lines and not faults:
        return None
    hint = None
    if faults:
        hint = "rows above the ceiling are no results, and none of the run is saved"
    return WorkFailed("\n".join([*lines, *faults]), hint=hint)


def keep_run(run: Run, name: str, root: Path) -> Path:
    """Save under benchmarks/results/<gpu>/; WorkFailed for a run with faults, which must not become a record."""
    faults = find_faults(run)
    if faults:
        raise WorkFailed("not saved: " + "; ".join(faults))
    return save_run(run, name, root)
