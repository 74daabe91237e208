"""Benchmarks of kernels whose cases are in Python files: timed beside their peers and a copy of as many bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sparkctl.arch import Arch
from sparkctl.bench.clocks import Clocks
from sparkctl.bench.device import Device
from sparkctl.bench.facts import DeviceFacts
from sparkctl.bench.faults import DeviceLost
from sparkctl.bench.measure import WARM_UP_S, Arm, GraphTimer, estimate_call_us, plan_calls, warm_up
from sparkctl.bench.results import Series, Stamp
from sparkctl.bench.sampling import Timer, sample_in_turn
from sparkctl.bench.session import PEER_TOLERANCE, crash_of
from sparkctl.bench.statistics import StopRule
from sparkctl.build import Progress, ensure_built
from sparkctl.errors import SparkctlError, UsageError
from sparkctl.interrupts import check_interrupt
from sparkctl.registry import Registry, Variant, runs_on, select_variants
from sparkctl.runtime import Library, load_library
from sparkctl.testing.model import OwnCase
from sparkctl.testing.own import OwnKernel, as_tuple, exact, judge_own, own_seed
from sparkctl.testing.own_file import OwnFile, load_own_file
from sparkctl.testing.prepare import Target
from sparkctl.workflows.stamp import read_stamp

if TYPE_CHECKING:
    from torch import Tensor

COLD_L2_FACTOR = 2  # the inputs of all slots together exceed the L2 so many times
MAX_SLOTS = 64  # a smaller case stays partly in L2, and its row says so
COPY = "copy"


@dataclass(frozen=True, slots=True)
class OwnRequest:
    """What was asked for."""

    patterns: tuple[str, ...] = ()
    where: Mapping[str, Sequence[str]] = field(default_factory=dict)
    profile: str = "release"
    sets: Mapping[str, str] = field(default_factory=dict)
    budget_s: float = 3.0
    peers: bool = True


@dataclass(frozen=True, slots=True)
class OwnRow:
    """One variant on one case. `copy` times torch's copy_ that moves as many bytes; None where traffic() is not there.

    `error`: the worst output of the last timed call over what is allowed.
    """

    variant: str
    case_id: str
    series: Series
    bytes_moved: int | None
    copy: Series | None
    peers: Mapping[str, Series | str]  # a text says why it did not run
    slots: int
    cold: bool
    error: float

    @property
    def tbps(self) -> float | None:
        return None if self.bytes_moved is None else self.bytes_moved / self.series.median_us / 1e6

    @property
    def copy_share(self) -> float | None:
        """The bandwidth over that of the copy."""
        return None if self.copy is None else self.copy.median_us / self.series.median_us


@dataclass(frozen=True, slots=True)
class OwnFailure:
    """A row that is none."""

    variant: str
    case_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class OwnRun:
    """The rows, and what they depend on."""

    facts: DeviceFacts
    compiler: str
    profile: str
    sets: Mapping[str, str]
    stamp: Stamp
    rows: tuple[OwnRow, ...]
    failures: tuple[OwnFailure, ...]
    planned: int
    interrupted: bool = False
    lost: str | None = None


@dataclass(frozen=True)
class Bench:
    """A device with the library that runs on it."""

    device: Device
    clocks: Clocks
    facts: DeviceFacts
    library: Library


Jobs = list[tuple[Variant, OwnFile, OwnCase]]


def own_kernels(registry: Registry, patterns: Sequence[str]) -> bool:
    """Whether a bench of these patterns is one of kernels with cases in Python. UsageError where it is of both."""
    kernels = {variant.kernel.name: variant.kernel for variant in select_variants(registry, patterns)}
    own = [name for name, kernel in kernels.items() if kernel.cases_file is not None]
    if own and len(own) < len(kernels) and patterns:
        raise UsageError(f"{own[0]} is timed by its own cases, other kernels by --seq and the like", hint="two runs")
    return bool(own) and (bool(patterns) or not any(k.family.endswith("decode") for k in kernels.values()))


def plan_own(registry: Registry, request: OwnRequest, arch: Arch) -> Jobs:
    """Every variant with every case of bench_cases(). UsageError where there is none."""
    variants = [v for v in select_variants(registry, request.patterns, where=request.where) if runs_on(v, arch)]
    jobs: Jobs = []
    for variant in variants:
        if variant.kernel.cases_file is not None:
            file = load_own_file(variant.kernel.cases_file)
            jobs += [(variant, file, case) for case in file.bench_cases()]
    if not jobs:
        raise UsageError(f"no case is selected for {arch.name}", hint="bench_cases() in the kernel's Python file")
    return jobs


def run_own_bench(
    registry: Registry,
    request: OwnRequest,
    *,
    arch: Arch,
    open_bench: Callable[[Registry, OwnRequest, Jobs, Arch, Progress | None], Bench] | None = None,
    at_case: Callable[[int, int, str], None] = lambda number, total, label: None,
    build_progress: Progress | None = None,
) -> OwnRun:
    """Every job measured; a case that fails is a failure of the run, Ctrl-C and a lost device end it with the rows."""
    jobs = plan_own(registry, request, arch)
    bench = (open_bench or open_cuda)(registry, request, jobs, arch, build_progress)
    stamp = read_stamp(registry.root)
    rows: list[OwnRow] = []
    failures: list[OwnFailure] = []
    interrupted, lost = False, None
    try:
        for number, (variant, file, case) in enumerate(jobs, 1):
            at_case(number, len(jobs), f"{variant.name} {case.id}")
            try:
                rows.append(_measure(bench, request, variant, file, case))
            except DeviceLost:
                raise
            except Exception as error:
                reason = error.message if isinstance(error, SparkctlError) else crash_of(variant.name, error)
                failures.append(OwnFailure(variant.name, case.id, reason))
                bench.device.release()
            check_interrupt()
    except KeyboardInterrupt:
        interrupted = True
    except DeviceLost as error:
        lost = error.message
    return OwnRun(
        facts=bench.facts,
        compiler=bench.library.manifest.compiler,
        profile=request.profile,
        sets=bench.library.manifest.flags,
        stamp=stamp,
        rows=tuple(rows),
        failures=tuple(failures),
        planned=len(jobs),
        interrupted=interrupted,
        lost=lost,
    )


def open_cuda(registry: Registry, request: OwnRequest, jobs: Jobs, arch: Arch, progress: Progress | None) -> Bench:
    """The device in use; torch is asked for it before anything is built."""
    import torch

    from sparkctl.bench.clocks import ClockReader
    from sparkctl.bench.device import CudaDevice
    from sparkctl.bench.facts import find_cuda_device, find_facts

    device = find_cuda_device()
    variants = list({variant.name: variant for variant, _, _ in jobs}.values())
    folder = ensure_built(
        registry,
        variants,
        arch=arch,
        backend="cuda",
        profile=request.profile,
        sets=request.sets,
        progress=progress,
    )
    clocks = ClockReader(str(torch.cuda.get_device_properties(device).uuid))
    return Bench(CudaDevice(device), clocks, find_facts(device, clocks), load_library(folder))


def _measure(bench: Bench, request: OwnRequest, variant: Variant, file: OwnFile, case: OwnCase) -> OwnRow:
    """One case: the kernel, its peers and the copy sampled in turn, then the outputs of the last call checked."""
    kernel = OwnKernel(variant.name, dict(variant.values), Target(bench.library, bench.device.name), poisoned=False)
    slots, cold = _slots(bench, file, kernel, case)
    moved = file.call("traffic", kernel, **dict(case.values)) if file.function("traffic") else None
    written: dict[int, tuple[Tensor, ...]] = {}

    def ours(slot: int) -> Tensor:
        written[slot] = as_tuple(file.call("run", kernel, **slots[slot]))
        return written[slot][0]

    arm = Arm(variant.name, ours)
    calls = plan_calls(len(slots), estimate_call_us(arm, len(slots), bench.device))
    timers = {variant.name: _timer(bench, arm, len(slots), calls)}
    if moved:
        timers[COPY] = _timer(bench, _copy_arm(bench, int(moved), len(slots)), len(slots), calls)
    expected = as_tuple(file.call("reference", **{name: exact(value, None) for name, value in slots[0].items()}))
    peers: dict[str, Series | str] = {}
    for name, call in _peers(file).items() if request.peers else ():
        try:
            arm = _peer_arm(name, call, slots)
            worst = judge_own(file, as_tuple(arm.call(0)), expected).worst
            if worst > PEER_TOLERANCE:
                peers[name] = f"its output is off by {worst:.2g} of what is allowed"
                continue
            timers[name] = _timer(bench, arm, len(slots), calls)
        except Exception as error:
            peers[name] = crash_of(name, error)
    warm_up(list(timers.values()), seconds=WARM_UP_S)
    arms: dict[str, Timer] = dict(timers)
    series = sample_in_turn(arms, rule=StopRule(), budget_s=request.budget_s, now=bench.device.now)
    for outputs in written.values():
        for output in outputs:
            output.fill_(float("nan") if output.dtype.is_floating_point else -1)
    timers[variant.name].take_sample()
    bench.device.synchronize()
    verdict = judge_own(file, written[0], expected)
    if verdict.failure:
        raise UsageError(f"wrong while it was timed: {verdict.failure}")
    named = [name for name in series if name not in (variant.name, COPY)]
    return OwnRow(
        variant=variant.name,
        case_id=case.id,
        series=series[variant.name],
        bytes_moved=None if moved is None else int(moved),
        copy=series.get(COPY),
        peers={**peers, **{name: series[name] for name in named}},
        slots=len(slots),
        cold=cold,
        error=verdict.worst,
    )


def _slots(bench: Bench, file: OwnFile, kernel: OwnKernel, case: OwnCase) -> tuple[list[Mapping[str, Any]], bool]:
    """Inputs that differ from slot to slot, so many that a call finds its own no longer in L2; whether they do."""
    import torch

    slots: list[Mapping[str, Any]] = []
    size = 0
    while len(slots) < 2 or (size <= COLD_L2_FACTOR * bench.facts.l2_bytes and len(slots) < MAX_SLOTS):
        torch.manual_seed(own_seed(case, len(slots)))
        inputs = file.call("inputs", kernel, **dict(case.values))
        size += sum(value.nbytes for value in inputs.values() if isinstance(value, torch.Tensor))
        slots.append(inputs)
    return slots, size > COLD_L2_FACTOR * bench.facts.l2_bytes


def _timer(bench: Bench, arm: Arm, slots: int, calls: int) -> GraphTimer:
    return GraphTimer(arm, slots=slots, calls=calls, clocks=bench.clocks, device=bench.device)


def _copy_arm(bench: Bench, moved: int, slots: int) -> Arm:
    """torch's copy_ of half of the bytes: each is read once and written once."""
    import torch

    count = max(1, moved // 2)
    pairs = [[torch.empty(count, dtype=torch.uint8, device=bench.device.name) for _ in range(2)] for _ in range(slots)]
    return Arm(COPY, lambda slot: pairs[slot][1].copy_(pairs[slot][0]))


def _peer_arm(name: str, call: Callable[..., Any], slots: Sequence[Mapping[str, Any]]) -> Arm:
    return Arm(name, lambda slot: as_tuple(call(**slots[slot]))[0])


def _peers(file: OwnFile) -> Mapping[str, Callable[..., Any]]:
    found = file.call("peers") if file.function("peers") else {}
    if not isinstance(found, Mapping) or not all(callable(call) for call in found.values()):
        raise UsageError(f"{file.path.name}: peers() gives functions by name")
    return found
