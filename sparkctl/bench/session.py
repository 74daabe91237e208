"""Measures whole cases on a CUDA device: our variants, the peers and the read ceiling, sampled in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sparkctl.bench.ab import Comparison
from sparkctl.bench.arms import DecodeArm, check_read, count_differences, decode_arm, read_arms
from sparkctl.bench.axes import DecodeCase
from sparkctl.bench.buffers import Slots, allocate_slots, count_slots
from sparkctl.bench.clocks import ClockReader
from sparkctl.bench.facts import DeviceFacts, find_facts
from sparkctl.bench.measure import Arm, EagerTimer, GraphTimer, estimate_call_us, plan_calls, warm_up
from sparkctl.bench.peers import PEERS, PeerArm
from sparkctl.bench.results import Ceiling, PeerResult, Row, Series
from sparkctl.bench.sampling import Timer, sample_in_turn, sample_rounds
from sparkctl.bench.statistics import StopRule, median
from sparkctl.bench.traffic import decode_traffic
from sparkctl.errors import WorkFailed
from sparkctl.ops.call import DecodeCall
from sparkctl.runtime import Library

if TYPE_CHECKING:
    import torch

PROBE_SAMPLES = 5  # of each read kernel, to find the fastest
PEER_TOLERANCE = 4.0  # times the error that we allow ourselves, before a peer's output counts as wrong
_CEILING = "read ceiling"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A comparison with the reference: `worst` is the largest error over the allowed one, above 1 is wrong."""

    worst: float
    text: str


# (case, q, k, v, outputs of the same call by different arms) -> a verdict for each output
Verify = Callable[
    [DecodeCase, "torch.Tensor", "torch.Tensor", "torch.Tensor", Sequence["torch.Tensor"]], Sequence[Verdict]
]


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
        device=device,
        facts=find_facts(device, clocks),
        clocks=clocks,
        peers=peers,
        verify=verify,
        budget_s=budget_s,
        rule=rule or StopRule(),
    )


@dataclass(frozen=True, slots=True)
class _Bench:
    """All that is timed on one case; the timers of our arms by the arms' names."""

    case: DecodeCase
    slots: Slots
    peers: Sequence[PeerArm]
    graphs: dict[str, GraphTimer]
    peer_graphs: dict[str, GraphTimer]
    eager: dict[str, EagerTimer]
    ceiling: GraphTimer

    @property
    def shared(self) -> dict[str, GraphTimer]:
        """What each of our arms is sampled beside."""
        return {**self.peer_graphs, _CEILING: self.ceiling}


class CudaSession:
    """One device, one library; `open_session` makes it."""

    def __init__(
        self,
        library: Library,
        *,
        device: str,
        facts: DeviceFacts,
        clocks: ClockReader,
        peers: Sequence[str],
        verify: Verify,
        budget_s: float,
        rule: StopRule,
    ) -> None:
        self.facts = facts
        self._library = library
        self._device = device
        self._clocks = clocks
        self._peers = tuple(peers)
        self._verify = verify
        self._budget_s = budget_s
        self._rule = rule

    def measure(self, case: DecodeCase, calls: Sequence[DecodeCall]) -> tuple[Row, ...]:
        """One row per call. WorkFailed when one of our outputs is wrong."""
        import torch

        slots = self._allocate(case)
        ours = [decode_arm(case, slots, call) for call in calls]
        bench = self._prepare(case, slots, ours)
        rows = tuple(self._measure_one(bench, one) for one in ours)
        del bench
        torch.cuda.synchronize()
        return rows

    def compare(
        self, case: DecodeCase, arms: Sequence[tuple[str, DecodeCall]]
    ) -> tuple[tuple[Row, ...], tuple[Comparison, ...]]:
        """One row per (label, call), sampled in rounds, and every later arm held against the first.

        WorkFailed when one of our outputs is wrong.
        """
        import torch

        slots = self._allocate(case)
        ours = [
            decode_arm(case, slots, call, label=label, out=None if index == 0 else [o.clone() for o in slots.out])
            for index, (label, call) in enumerate(arms)
        ]
        bench = self._prepare(case, slots, ours)
        least = replace(self._rule, max_samples=self._rule.min_samples)
        eager = sample_in_turn(bench.eager, rule=least, budget_s=0.0, now=time.perf_counter)
        for one in ours:
            one.poison()
        first, *later = (one.arm.name for one in ours)
        series = sample_rounds(
            {**bench.graphs, **bench.shared},
            rule=self._rule,
            budget_s=self._budget_s,
            now=time.perf_counter,
            pairs=[(first, other) for other in later],
        )
        rows = tuple(
            replace(self._row(bench, one, series, eager[one.arm.name], self._check_outputs(bench, one)), arm=label)
            for one, (label, _) in zip(ours, arms, strict=True)
        )
        bits = [count_differences(ours[0].out, one.out) for one in ours[1:]]
        del bench
        torch.cuda.synchronize()
        return rows, tuple(Comparison(rows[0], row, found) for row, found in zip(rows[1:], bits, strict=True))

    def _allocate(self, case: DecodeCase) -> Slots:
        return allocate_slots(case, count_slots(case, self.facts.l2_bytes), device=self._device)

    def _prepare(self, case: DecodeCase, slots: Slots, ours: Sequence[DecodeArm]) -> _Bench:
        """Peers tried, the ceiling found, graphs captured and warm; what peers and ceiling write is poisoned."""
        peers = self._try_peers(case, slots)
        per_sample = plan_calls(slots.count, min(estimate_call_us(one.arm, slots.count) for one in ours))
        ceiling = self._find_ceiling(slots, per_sample)
        graphs = {one.arm.name: self._graph(one.arm, slots, per_sample) for one in ours}
        peer_graphs = {p.name: self._graph(Arm(p.name, p.call), slots, per_sample) for p in peers if p.call is not None}
        eager = {
            one.arm.name: EagerTimer(one.eager, slots=slots.count, calls=per_sample, clocks=self._clocks)
            for one in ours
        }
        warm_up([*graphs.values(), *peer_graphs.values(), ceiling])
        for timer in (*peer_graphs.values(), ceiling):
            timer.poison()
        return _Bench(case, slots, peers, graphs, peer_graphs, eager, ceiling)

    def _measure_one(self, bench: _Bench, one: DecodeArm) -> Row:
        """Our variants write to the same outputs, so each has its own rounds and its own check."""
        one.poison()
        name, eager_name = one.arm.name, f"{one.arm.name} eager"
        arms: dict[str, Timer] = {name: bench.graphs[name], eager_name: bench.eager[name], **bench.shared}
        least = replace(self._rule, max_samples=self._rule.min_samples)  # eager is noisy and no result of ours
        series = sample_in_turn(
            arms, rule=self._rule, budget_s=self._budget_s, now=time.perf_counter, exceptions={eager_name: least}
        )
        return self._row(bench, one, series, series[eager_name], self._check_outputs(bench, one))

    def _row(self, bench: _Bench, one: DecodeArm, series: dict[str, Series], eager: Series, error: str) -> Row:
        plan = one.call.plan
        return Row(
            case=bench.case,
            kernel=self._library.variant(plan.variant).kernel,
            variant=plan.variant,
            num_splits=plan.num_splits,
            traffic=decode_traffic(bench.case),
            slots=bench.slots.count,
            series=series[one.arm.name],
            eager=eager,
            ceiling=Ceiling(bench.ceiling.arm.name, bench.slots.layout.size, series[_CEILING]),
            peers=tuple(PeerResult(peer.name, series.get(peer.name), peer.reason) for peer in bench.peers),
            error=error,
        )

    def _graph(self, arm: Arm, slots: Slots, calls: int) -> GraphTimer:
        return GraphTimer(arm, slots=slots.count, calls=calls, clocks=self._clocks)

    def _try_peers(self, case: DecodeCase, slots: Slots) -> list[PeerArm]:
        """Every arm of every peer, those with a wrong output turned into a reason."""
        arms = [arm for peer in self._peers for arm in PEERS[peer](case, slots)]
        able = [arm for arm in arms if arm.call is not None]
        outputs = [arm.call(0) for arm in able if arm.call is not None]
        verdicts = self._verify(case, slots.q[0], *slots.keys(case, 0), outputs) if outputs else []
        wrong = {
            arm.name: PeerArm(arm.name, None, f"wrong output: {verdict.text}")
            for arm, verdict in zip(able, verdicts, strict=True)
            if not verdict.worst <= PEER_TOLERANCE
        }
        return [wrong.get(arm.name, arm) for arm in arms]

    def _find_ceiling(self, slots: Slots, calls: int) -> GraphTimer:
        """The fastest read kernel in a short run of each, all proven to read the whole slot."""
        arms = read_arms(self._library, slots, self.facts.sm_count)
        if not arms:
            raise WorkFailed("the library holds no read kernel", hint="sparkctl build stream_read")
        for arm in arms:
            check_read(arm.name, arm.call(0), slots.raw[0])
        timers = [self._graph(arm, slots, calls) for arm in arms]
        warm_up(timers)
        taken = [[timer.take_sample().time_us for timer in timers] for _ in range(PROBE_SAMPLES)]
        times = [median(column) for column in zip(*taken, strict=True)]
        return timers[times.index(min(times))]

    def _check_outputs(self, bench: _Bench, one: DecodeArm) -> str:
        """What the timed calls left behind: every output written, the last slot's compared with the reference."""
        case, slots, name = bench.case, bench.slots, one.arm.name
        unwritten = sum(bool(out.isnan().any()) for out in one.out)
        if unwritten:
            raise WorkFailed(f"{name} on {case.label}: NaN in {unwritten} of {slots.count} outputs of timed calls")
        last = slots.count - 1
        check_read(bench.ceiling.arm.name, bench.ceiling.outputs[last], slots.raw[last])
        outputs = [one.out[last], *(timer.outputs[last] for timer in bench.peer_graphs.values())]
        verdicts = self._verify(case, slots.q[last], *slots.keys(case, last), outputs)
        if not verdicts[0].worst <= 1.0:
            raise WorkFailed(f"{name} on {case.label}: wrong output of a timed call: {verdicts[0].text}")
        for peer, verdict in zip(bench.peer_graphs, verdicts[1:], strict=True):
            if not verdict.worst <= PEER_TOLERANCE:
                raise WorkFailed(f"{peer} on {case.label}: wrong output of a timed call: {verdict.text}")
        return verdicts[0].text
