"""Measures whole cases on a CUDA device: our variants, the peers and the read ceiling, sampled in turn."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sparkctl.bench.arms import DecodeArm, check_read, decode_arm, read_arms
from sparkctl.bench.axes import DecodeCase
from sparkctl.bench.buffers import Slots, allocate_slots, count_slots
from sparkctl.bench.clocks import ClockReader
from sparkctl.bench.measure import Arm, EagerTimer, GraphTimer, estimate_call_us, plan_calls, warm_up
from sparkctl.bench.peers import PEERS, PeerArm
from sparkctl.bench.results import Ceiling, PeerResult, Row, Series
from sparkctl.bench.sampling import Timer, sample_in_turn
from sparkctl.bench.statistics import StopRule, median
from sparkctl.bench.traffic import decode_traffic
from sparkctl.errors import MissingTool, WorkFailed
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


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What the CUDA runtime says about the device in use, and the versions around it."""

    name: str
    arch: str
    sm_count: int
    l2_bytes: int
    driver: str | None
    cuda: str | None
    torch: str
    cudnn: str | None
    python: str
    clocks_missing: str | None  # why clocks could not be read


def find_facts(device: str, clocks: ClockReader) -> DeviceFacts:
    """Asks torch; `device` as torch names it: "cuda:0"."""
    import torch

    properties = torch.cuda.get_device_properties(device)
    cudnn_version: Any = torch.backends.cudnn.version  # not annotated
    cudnn = cudnn_version()
    return DeviceFacts(
        name=properties.name,
        arch=f"sm_{properties.major}{properties.minor}",
        sm_count=properties.multi_processor_count,
        l2_bytes=properties.L2_cache_size,
        driver=clocks.driver,
        cuda=torch.version.cuda,
        torch=torch.__version__,
        cudnn=None if cudnn is None else str(cudnn),
        python=platform.python_version(),
        clocks_missing=clocks.missing,
    )


def find_cuda_device() -> str:
    """Torch's current device; MissingTool when torch sees none."""
    import torch

    if not torch.cuda.is_available():
        raise MissingTool(
            f"torch {torch.__version__} sees no CUDA device",
            hint="a torch built for CUDA, or sparkctl bench --estimate H200",
        )
    return f"cuda:{torch.cuda.current_device()}"


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

        slots = allocate_slots(case, count_slots(case, self.facts.l2_bytes), device=self._device)
        ours = [decode_arm(case, slots, call) for call in calls]
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
        rows = self._sample(case, slots, ours, peers, graphs, peer_graphs, eager, ceiling)
        del graphs, peer_graphs, eager, ceiling
        torch.cuda.synchronize()
        return rows

    def _sample(
        self,
        case: DecodeCase,
        slots: Slots,
        ours: Sequence[DecodeArm],
        peers: Sequence[PeerArm],
        graphs: dict[str, GraphTimer],
        peer_graphs: dict[str, GraphTimer],
        eager: dict[str, EagerTimer],
        ceiling: GraphTimer,
    ) -> tuple[Row, ...]:
        for timer in (*peer_graphs.values(), ceiling):
            timer.poison()
        rows = []
        shared: dict[str, Timer] = {**peer_graphs, _CEILING: ceiling}
        for one in ours:  # our variants write to the same outputs, so each has its own rounds and its own check
            one.poison(slots)
            name = one.arm.name
            arms: dict[str, Timer] = {name: graphs[name], f"{name} eager": eager[name], **shared}
            least = replace(self._rule, max_samples=self._rule.min_samples)  # eager is noisy and no result of ours
            series = sample_in_turn(
                arms,
                rule=self._rule,
                budget_s=self._budget_s,
                now=time.perf_counter,
                exceptions={f"{name} eager": least},
            )
            error = self._check_outputs(case, slots, name, peer_graphs, ceiling)
            rows.append(self._row(case, slots, one, peers, series, ceiling, error))
        return tuple(rows)

    def _row(
        self,
        case: DecodeCase,
        slots: Slots,
        one: DecodeArm,
        peers: Sequence[PeerArm],
        series: dict[str, Series],
        ceiling: GraphTimer,
        error: str,
    ) -> Row:
        name = one.arm.name
        return Row(
            case=case,
            kernel=self._library.variant(name).kernel,
            variant=name,
            num_splits=one.call.plan.num_splits,
            traffic=decode_traffic(case),
            slots=slots.count,
            series=series[name],
            eager=series[f"{name} eager"],
            ceiling=Ceiling(ceiling.arm.name, slots.layout.size, series[_CEILING]),
            peers=tuple(PeerResult(peer.name, series.get(peer.name), peer.reason) for peer in peers),
            error=error,
        )

    def _graph(self, arm: Arm, slots: Slots, calls: int) -> GraphTimer:
        return GraphTimer(arm, slots=slots.count, calls=calls, clocks=self._clocks)

    def _try_peers(self, case: DecodeCase, slots: Slots) -> list[PeerArm]:
        """Every arm of every peer, those with a wrong output turned into a reason."""
        arms = [arm for peer in self._peers for arm in PEERS[peer](case, slots)]
        able = [arm for arm in arms if arm.call is not None]
        outputs = [arm.call(0) for arm in able if arm.call is not None]
        verdicts = self._verify(case, slots.q[0], slots.k[0], slots.v[0], outputs) if outputs else []
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

    def _check_outputs(
        self, case: DecodeCase, slots: Slots, name: str, peers: dict[str, GraphTimer], ceiling: GraphTimer
    ) -> str:
        """What the timed calls left behind: every output written, the last slot's compared with the reference."""
        unwritten = sum(bool(out.isnan().any()) for out in slots.out)
        if unwritten:
            raise WorkFailed(f"{name} on {case.label}: NaN in {unwritten} of {slots.count} outputs of timed calls")
        last = slots.count - 1
        check_read(ceiling.arm.name, ceiling.outputs[last], slots.raw[last])
        outputs = [slots.out[last], *(timer.outputs[last] for timer in peers.values())]
        verdicts = self._verify(case, slots.q[last], slots.k[last], slots.v[last], outputs)
        if not verdicts[0].worst <= 1.0:
            raise WorkFailed(f"{name} on {case.label}: wrong output of a timed call: {verdicts[0].text}")
        for peer, verdict in zip(peers, verdicts[1:], strict=True):
            if not verdict.worst <= PEER_TOLERANCE:
                raise WorkFailed(f"{peer} on {case.label}: wrong output of a timed call: {verdict.text}")
        return verdicts[0].text
