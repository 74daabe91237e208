"""Measures whole cases on a device: our variants, the peers and the read ceiling, sampled in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from sparkctl.bench.ab import Comparison
from sparkctl.bench.arms import DecodeArm, KernelCall, check_read, count_differences, decode_arm, read_arms
from sparkctl.bench.axes import DecodeCase
from sparkctl.bench.buffers import Slots, allocate_slots, count_slots
from sparkctl.bench.call_options import PLAIN, CallOptions
from sparkctl.bench.clocks import ClockReader, Clocks
from sparkctl.bench.device import CudaDevice, Device
from sparkctl.bench.facts import DeviceFacts, find_facts
from sparkctl.bench.faults import DeviceLost, describe_crash, lost_reason
from sparkctl.bench.gemm import Gemm, measure_gemm, torch_gemm
from sparkctl.bench.measure import (
    WARM_UP_S,
    Arm,
    EagerTimer,
    GraphTimer,
    estimate_call_us,
    flip,
    plan_calls,
    warm_up,
)
from sparkctl.bench.peers import PEERS, PeerArm
from sparkctl.bench.results import Ceiling, Failure, GemmCeiling, PeerResult, Row, Series
from sparkctl.bench.sampling import Optional, Timer, sample_in_turn, sample_rounds
from sparkctl.bench.statistics import StopRule, median
from sparkctl.bench.traffic import decode_traffic
from sparkctl.errors import WorkFailed
from sparkctl.interrupts import check_interrupt
from sparkctl.ops.options import AttentionOptions
from sparkctl.runtime import Library

if TYPE_CHECKING:
    import torch

GEMM_BUDGET_S = 1.0
PROBE_SAMPLES = 5  # of each read kernel, to find the fastest
PEER_TOLERANCE = 4.0  # times the error that we allow ourselves, before a peer's output counts as wrong
_CEILING = "read ceiling"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A comparison with the reference: `worst` is the largest error over the allowed one, above 1 is wrong."""

    worst: float
    text: str


class Verify(Protocol):
    """A verdict for each output of the same call by different arms; `lse` is the first one's."""

    def __call__(
        self,
        case: DecodeCase,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        outputs: Sequence[torch.Tensor],
        options: AttentionOptions | None = None,
        lse: torch.Tensor | None = None,
    ) -> Sequence[Verdict]: ...


def open_session(
    library: Library,
    device: str,
    *,
    peers: Sequence[str],
    verify: Verify,
    budget_s: float,
    rule: StopRule | None = None,
) -> CudaSession:
    """A session on a CUDA device, with its facts and clocks."""
    import torch

    clocks = ClockReader(str(torch.cuda.get_device_properties(device).uuid))
    return CudaSession(
        library,
        device=CudaDevice(device),
        facts=find_facts(device, clocks),
        clocks=clocks,
        peers=peers,
        verify=verify,
        budget_s=budget_s,
        rule=rule or StopRule(),
    )


@dataclass(slots=True)
class _Bench:
    """All that is timed on one case; the timers of our arms by the arms' names, less those that failed."""

    case: DecodeCase
    slots: Slots
    ceiling: GraphTimer
    graphs: dict[str, GraphTimer]
    eager: dict[str, EagerTimer]
    peer_graphs: dict[str, GraphTimer]
    peers: list[PeerArm]  # all of them, in order, with the reason of those that failed
    broken: dict[str, str] = field(default_factory=dict)  # arms of ours that failed, and why

    @property
    def shared(self) -> dict[str, GraphTimer]:
        """What each of our arms is sampled beside."""
        return {**self.peer_graphs, _CEILING: self.ceiling}

    @property
    def optional(self) -> Optional:
        """A peer that fails while it is timed becomes a reason."""

        def drop(name: str) -> Callable[[Exception], None]:
            return lambda error: self.drop_peer(name, crash_of(name, error))

        return {name: drop(name) for name in self.peer_graphs}

    def drop_peer(self, name: str, reason: str) -> None:
        self.peer_graphs.pop(name, None)
        self.peers = [PeerArm(name, None, reason) if peer.name == name else peer for peer in self.peers]

    def refresh(self, ours: Sequence[DecodeArm]) -> None:
        """Other queries than before, and nothing left of the outputs."""
        flip(self.slots.q)
        for one in ours:
            one.poison()
        for timer in self.shared.values():
            timer.poison()


def crash_of(who: str, error: Exception) -> str:
    """What a row says of an error of something that ran for it; DeviceLost where no row can follow.

    An interrupt that a library handed on as an error of its own is one again.
    """
    check_interrupt()
    if isinstance(error, DeviceLost):
        raise error
    if reason := lost_reason(error):
        raise DeviceLost(f"the device was lost while {who} ran: {reason}") from error
    return error.message if isinstance(error, WorkFailed) else describe_crash(error)


class CudaSession:
    """One device, one library; `open_session` makes it."""

    def __init__(
        self,
        library: Library,
        *,
        device: Device,
        facts: DeviceFacts,
        clocks: Clocks,
        peers: Sequence[str],
        verify: Verify,
        budget_s: float,
        rule: StopRule,
        warm_up_s: float = WARM_UP_S,
        gemm: Callable[[str], Gemm] = torch_gemm,
    ) -> None:
        self.facts = facts
        self._library = library
        self._device = device
        self._clocks = clocks
        self._peers = tuple(peers)
        self._verify = verify
        self._budget_s = budget_s
        self._rule = rule
        self._warm_up_s = warm_up_s
        self._gemm = gemm

    def measure(self, case: DecodeCase, calls: Sequence[KernelCall]) -> Iterator[Row | Failure]:
        """A row per call, or why there is none. WorkFailed when nothing of the case can run; DeviceLost."""
        with self._attempt(case):
            slots = self._allocate(case)
            ours = [decode_arm(case, slots, call) for call in calls]
            bench = self._prepare(case, slots, ours)
        for one in ours:
            name = one.arm.name
            try:
                if name in bench.broken:
                    raise WorkFailed(bench.broken[name])
                row = self._measure_one(bench, one)
            except Exception as error:
                yield Failure(case, crash_of(name, error), name)
            else:
                yield row
        del bench
        with self._attempt(case):
            self._device.synchronize()

    def measure_gemm(self) -> GemmCeiling:
        """The ceiling of the tensor cores. WorkFailed when it does not fit; DeviceLost."""
        try:
            return measure_gemm(
                self._gemm,
                device=self._device,
                clocks=self._clocks,
                rule=self._rule,
                budget_s=min(self._budget_s, GEMM_BUDGET_S),
                warm_up_s=self._warm_up_s,
            )
        except Exception as error:
            raise WorkFailed(crash_of("the GEMM ceiling", error)) from error
        finally:
            self._device.release()

    def compare(
        self, case: DecodeCase, arms: Sequence[tuple[str, KernelCall]], options: Sequence[CallOptions] = ()
    ) -> tuple[tuple[Row, ...], tuple[Comparison, ...]]:
        """One row per (label, call), sampled in rounds, and every later arm held against the first.

        `options` are those of each arm; plain attention where there are none.

        WorkFailed when one of the arms fails or its output is wrong; DeviceLost.
        """
        with self._attempt(case):
            return self._compare(case, arms, options or (PLAIN,) * len(arms))

    def _compare(
        self, case: DecodeCase, arms: Sequence[tuple[str, KernelCall]], options: Sequence[CallOptions]
    ) -> tuple[tuple[Row, ...], tuple[Comparison, ...]]:
        slots = self._allocate(case, options)
        outs = [slots.out, *([out.clone() for out in slots.out] for _ in arms[1:])]
        ours = [
            decode_arm(case, slots, call, label=label, out=out, options=one)
            for (label, call), out, one in zip(arms, outs, options, strict=True)
        ]
        bench = self._prepare(case, slots, ours)
        for name, reason in bench.broken.items():
            raise WorkFailed(f"{name}: {reason}")
        least = replace(self._rule, max_samples=self._rule.min_samples)
        eager = sample_in_turn(bench.eager, rule=least, budget_s=0.0, now=self._device.now)
        first, *later = (one.arm.name for one in ours)
        series = sample_rounds(
            {**bench.graphs, **bench.shared},
            rule=self._rule,
            budget_s=self._budget_s,
            now=self._device.now,
            pairs=[(first, other) for other in later],
            before_round=lambda: bench.refresh(ours),
            optional=bench.optional,
        )
        series = self._sample_once_more(bench, ours, series)
        errors = [self._check_outputs(bench, one) for one in ours]
        rows = tuple(
            replace(self._row(bench, one, series, eager[one.arm.name], error), arm=label)
            for one, error, (label, _) in zip(ours, errors, arms, strict=True)
        )
        bits = [count_differences(ours[0].out, one.out) for one in ours[1:]]
        self._device.synchronize()
        return rows, tuple(Comparison(rows[0], row, found) for row, found in zip(rows[1:], bits, strict=True))

    @contextmanager
    def _attempt(self, case: DecodeCase) -> Iterator[None]:
        """Errors of what is inside as WorkFailed or DeviceLost, the memory given back."""
        try:
            yield
        except Exception as error:
            reason = crash_of(case.label, error)
            self._device.release()
            raise WorkFailed(reason) from error

    def _allocate(self, case: DecodeCase, options: Sequence[CallOptions] = (PLAIN,)) -> Slots:
        count = count_slots(case, self.facts.l2_bytes, options)
        return allocate_slots(case, count, device=self._device.name, free_bytes=self._device.free_bytes())

    def _prepare(self, case: DecodeCase, slots: Slots, ours: Sequence[DecodeArm]) -> _Bench:
        """Peers tried, the ceiling found, graphs captured and warm."""
        peers = self._try_peers(case, slots)
        self._device.reset_persisting_l2()  # a peer might have pinned lines
        estimates, broken = {}, {}
        for one in ours:
            try:
                estimates[one.arm.name] = estimate_call_us(one.arm, slots.count, self._device)
            except Exception as error:
                broken[one.arm.name] = crash_of(one.arm.name, error)
        if not estimates:
            raise WorkFailed("; ".join(f"{name}: {reason}" for name, reason in broken.items()))
        per_sample = plan_calls(slots.count, min(estimates.values()))
        bench = _Bench(case, slots, self._find_ceiling(slots, per_sample), {}, {}, {}, peers, broken)
        for one in ours:
            if one.arm.name in broken:
                continue
            try:
                bench.graphs[one.arm.name] = self._graph(one.arm, slots, per_sample)
                bench.eager[one.arm.name] = EagerTimer(
                    one.eager, slots=slots.count, calls=per_sample, clocks=self._clocks, device=self._device
                )
            except Exception as error:
                broken[one.arm.name] = crash_of(one.arm.name, error)
        for peer in peers:
            if peer.call is None:
                continue
            try:
                bench.peer_graphs[peer.name] = self._graph(Arm(peer.name, peer.call), slots, per_sample)
            except Exception as error:
                bench.drop_peer(peer.name, crash_of(peer.name, error))

        def failed(timer: GraphTimer, error: Exception) -> None:
            name = timer.arm.name
            if timer is bench.ceiling:
                raise error
            if name in bench.peer_graphs:
                bench.drop_peer(name, crash_of(name, error))
            else:
                broken[name] = crash_of(name, error)

        warm_up([*bench.graphs.values(), *bench.shared.values()], seconds=self._warm_up_s, failed=failed)
        return bench

    def _measure_one(self, bench: _Bench, one: DecodeArm) -> Row:
        """Our variants write to the same outputs, so each has its own rounds and its own check."""
        name, eager_name = one.arm.name, f"{one.arm.name} eager"
        arms: dict[str, Timer] = {name: bench.graphs[name], eager_name: bench.eager[name], **bench.shared}
        least = replace(self._rule, max_samples=self._rule.min_samples)  # eager is noisy and no result of ours
        series = sample_in_turn(
            arms,
            rule=self._rule,
            budget_s=self._budget_s,
            now=self._device.now,
            exceptions={eager_name: least},
            before_round=lambda: bench.refresh([one]),
            optional=bench.optional,
        )
        series = self._sample_once_more(bench, [one], series)
        error = self._check_outputs(bench, one)
        return self._row(bench, one, series, series[eager_name], error)

    def _sample_once_more(
        self, bench: _Bench, ours: Sequence[DecodeArm], series: dict[str, Series]
    ) -> dict[str, Series]:
        """A last sample of every graph, on the same queries: arms that were precise early have older outputs."""
        bench.refresh(ours)
        graphs = {**{one.arm.name: bench.graphs[one.arm.name] for one in ours}, **bench.shared}
        optional, last = bench.optional, dict(series)
        for name, timer in graphs.items():
            try:
                last[name] = replace(last[name], samples=(*last[name].samples, timer.take_sample()))
            except Exception as error:
                if name not in optional:
                    raise
                optional[name](error)
        return last

    def _row(self, bench: _Bench, one: DecodeArm, series: dict[str, Series], eager: Series, error: str) -> Row:
        plan = one.call.plan
        return Row(
            case=bench.case,
            kernel=self._library.variant(plan.variant).kernel,
            variant=plan.variant,
            num_splits=plan.num_splits,
            traffic=decode_traffic(bench.case, one.options),
            slots=bench.slots.count,
            series=series[one.arm.name],
            eager=eager,
            ceiling=Ceiling(bench.ceiling.arm.name, bench.slots.layout.size, series[_CEILING]),
            peers=tuple(
                PeerResult(peer.name, None if peer.call is None else series.get(peer.name), peer.reason)
                for peer in bench.peers
            ),
            error=error,
        )

    def _graph(self, arm: Arm, slots: Slots, calls: int) -> GraphTimer:
        return GraphTimer(arm, slots=slots.count, calls=calls, clocks=self._clocks, device=self._device)

    def _try_peers(self, case: DecodeCase, slots: Slots) -> list[PeerArm]:
        """Every arm of every peer, those that fail or have a wrong output turned into a reason."""
        arms = [self._call_once(arm) for peer in self._peers for arm in self._arms_of(peer, case, slots)]
        outputs = {arm.name: out for arm, out in arms if out is not None}
        keys = slots.keys(case, 0)
        try:
            verdicts = self._verify(case, slots.q[0], *keys, list(outputs.values())) if outputs else []
            reasons = {
                name: f"wrong output: {verdict.text}"
                for name, verdict in zip(outputs, verdicts, strict=True)
                if not verdict.worst <= PEER_TOLERANCE
            }
        except Exception as error:  # an output of another shape
            reason = crash_of("the comparison with the reference", error)
            reasons = dict.fromkeys(outputs, f"its output cannot be compared: {reason}")
        return [PeerArm(arm.name, None, reasons[arm.name]) if arm.name in reasons else arm for arm, _ in arms]

    def _arms_of(self, peer: str, case: DecodeCase, slots: Slots) -> Sequence[PeerArm]:
        try:
            arms = PEERS[peer](case, slots)
            self._device.synchronize()  # what it did wrong shows here, not in the next
        except Exception as error:
            return (PeerArm(peer, None, crash_of(peer, error)),)
        return arms

    def _call_once(self, arm: PeerArm) -> tuple[PeerArm, torch.Tensor | None]:
        if arm.call is None:
            return arm, None
        try:
            out = arm.call(0)
            self._device.synchronize()
        except Exception as error:
            return PeerArm(arm.name, None, crash_of(arm.name, error)), None
        return arm, out

    def _find_ceiling(self, slots: Slots, calls: int) -> GraphTimer:
        """The fastest read kernel in a short run of each, all proven to read the whole slot."""
        arms = read_arms(self._library, slots, self.facts.sm_count)
        if not arms:
            raise WorkFailed("the library holds no read kernel", hint="sparkctl build stream_read")
        for arm in arms:
            check_read(arm.name, arm.call(0), slots.raw[0])
        timers = [self._graph(arm, slots, calls) for arm in arms]
        warm_up(timers, seconds=self._warm_up_s)
        taken = [[timer.take_sample().time_us for timer in timers] for _ in range(PROBE_SAMPLES)]
        times = [median(column) for column in zip(*taken, strict=True)]
        return timers[times.index(min(times))]

    def _check_outputs(self, bench: _Bench, one: DecodeArm) -> str:
        """What the timed calls left behind: every output written, the last slot's compared with the reference.

        WorkFailed where ours is wrong; a peer becomes a reason.
        """
        case, slots = bench.case, bench.slots
        unwritten = sum(bool(out.isnan().any()) for out in (*one.out, *one.lse))
        if unwritten:
            raise WorkFailed(f"NaN in {unwritten} of {slots.count} outputs of timed calls")
        last = slots.count - 1
        check_read(bench.ceiling.arm.name, bench.ceiling.outputs[last], slots.raw[last])
        outputs = [one.out[last], *(timer.outputs[last] for timer in bench.peer_graphs.values())]
        lse = one.lse[last] if one.lse else None
        verdicts = self._verify(case, slots.q[last], *slots.keys(case, last), outputs, one.attention, lse)
        if not verdicts[0].worst <= 1.0:
            raise WorkFailed(f"wrong output of a timed call: {verdicts[0].text}")
        for peer, verdict in zip(list(bench.peer_graphs), verdicts[1:], strict=True):
            if not verdict.worst <= PEER_TOLERANCE:
                bench.drop_peer(peer, f"wrong output of a timed call: {verdict.text}")
        return verdicts[0].text
