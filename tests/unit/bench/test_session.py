"""A whole case through the session, on a CUDA that is made up: graphs are tapes, time is the number of calls."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from sparkctl.bench import session as session_module
from sparkctl.bench.ab import Comparison
from sparkctl.bench.arms import plan_case
from sparkctl.bench.axes import DecodeCase, Heads
from sparkctl.bench.buffers import Slots
from sparkctl.bench.clocks import ClockReader
from sparkctl.bench.facts import DeviceFacts
from sparkctl.bench.peers import PEERS, PeerArm
from sparkctl.bench.results import Row
from sparkctl.bench.session import CudaSession
from sparkctl.bench.statistics import StopRule
from sparkctl.errors import WorkFailed
from sparkctl.runtime import Library
from sparkctl.workflows.bench import verify_outputs

CASE = DecodeCase(batch=2, kv_len=200, heads=Heads(8, 2), head_dim=64)
FACTS = DeviceFacts("NVIDIA H200", "sm_90", 132, 250_000, None, "13.0", "2.11", None, "3.12", "no NVML here")
US_PER_CALL = 300.0
US_EAGER = 400.0


class FakeCuda:
    """The few parts of torch.cuda that measuring uses; the clock advances by one call's time for each call replayed."""

    def __init__(self, module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.module = module
        self.now_us = 0.0
        self.held: list[int] = []
        cuda = self

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing

            def record(self) -> None:
                self.at = cuda.now_us

            def synchronize(self) -> None:
                pass

            def elapsed_time(self, end: Event) -> float:
                return (end.at - self.at) / 1000

        class Graph:
            def replay(self) -> None:
                start = cuda.now_us
                for call in self.tape:
                    call()
                cuda.now_us = start + US_PER_CALL * len(self.tape)

        class Stream:
            def wait_stream(self, other: object) -> None:
                pass

        @contextlib.contextmanager
        def graph(into: Any) -> Iterator[None]:
            module.tape = into.tape = []
            try:
                yield
            finally:
                module.tape = None

        for name, value in {
            "Event": Event,
            "CUDAGraph": Graph,
            "Stream": Stream,
            "graph": graph,
            "stream": lambda side: contextlib.nullcontext(),
            "current_stream": Stream,
            "synchronize": lambda: None,
            "_sleep": self.held.append,
        }.items():
            monkeypatch.setattr(torch.cuda, name, value)


@pytest.fixture
def cuda(library: Library, monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    monkeypatch.setattr(session_module, "warm_up", lambda timers: [timer.take_sample() for timer in timers])
    fake = FakeCuda(library.module, monkeypatch)
    decode = library.module.decode

    def clocked_decode(*args: Any) -> None:
        decode(*args)
        fake.now_us += US_EAGER

    library.module.decode = clocked_decode
    return fake


PAGED = DecodeCase(batch=2, kv_len=200, heads=Heads(8, 2), head_dim=64, page_size=16)


def make_peer(library: Library, error: float) -> Callable[[DecodeCase, Slots], tuple[PeerArm, ...]]:
    """Our own decode with `error` added, and an arm that cannot run."""

    def arms(case: DecodeCase, slots: Slots) -> tuple[PeerArm, ...]:
        outs = [torch.empty_like(out) for out in slots.out]
        enter = library.function("decode")

        def call(slot: int) -> torch.Tensor:
            args = (slots.q[slot], slots.k[slot], slots.v[slot], None, outs[slot], None, None, None, None, 0.125, False)
            enter(0, 0, *args)
            outs[slot].add_(error)
            return outs[slot]

        return (PeerArm("good", call), PeerArm("absent", None, "no such backend"))

    return arms


def open_fake(library: Library, *peers: str) -> CudaSession:
    return CudaSession(
        library,
        device="cpu",
        facts=FACTS,
        clocks=ClockReader("none"),
        peers=peers,
        verify=verify_outputs,
        budget_s=0.0,
        rule=StopRule(min_samples=2, max_samples=3),
    )


def measure(library: Library, monkeypatch: pytest.MonkeyPatch, *, peer_error: float = 0.0) -> tuple[Row, ...]:
    monkeypatch.setitem(PEERS, "fake", make_peer(library, peer_error))
    calls = [
        plan_case(library, CASE, variant=f"attn_decode_split_kv_mma.bf16.d64{suffix}", device_sm_count=132)
        for suffix in ("", ".s4")
    ]
    return open_fake(library, "fake").measure(CASE, calls)


def test_a_case_gives_a_row_per_variant_with_all_that_belongs_to_it(
    library: Library, cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = measure(library, monkeypatch)
    assert [row.variant for row in rows] == [f"attn_decode_split_kv_mma.bf16.d64{end}" for end in ("", ".s4")]
    row = rows[0]
    assert row.slots == 2 * FACTS.l2_bytes // (row.traffic.kv_bytes + row.traffic.q_bytes) + 1 == 3
    assert row.series.median_us == US_PER_CALL
    assert row.series.calls % row.slots == 0
    assert row.eager.median_us == US_EAGER
    assert row.ceiling.series.median_us == US_PER_CALL
    assert row.ceiling.kernel.startswith("stream_read.")
    assert [(peer.name, peer.series is None, peer.reason) for peer in row.peers] == [
        ("good", False, None),
        ("absent", True, "no such backend"),
    ]
    assert row.error.endswith("of what is allowed")
    assert all(cycles > 0 for cycles in cuda.held)


def test_a_replay_that_writes_nothing_is_found_out(
    library: Library, cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = library.module.decode

    def lazy(*args: Any) -> None:
        if cuda.now_us < 10 * US_PER_CALL:  # works while it is warmed up
            decode(*args)
        else:
            cuda.now_us += US_EAGER

    library.module.decode = lazy
    with pytest.raises(WorkFailed, match="NaN in 3 of 3 outputs of timed calls"):
        measure(library, monkeypatch)


def test_a_wrong_output_of_ours_fails_the_run(
    library: Library, cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = library.module.decode

    def wrong(*args: Any) -> None:
        decode(*args)
        args[6].mul_(1.1)

    library.module.decode = wrong
    with pytest.raises(WorkFailed, match="wrong output of a timed call: sequence"):
        measure(library, monkeypatch)


def test_a_wrong_peer_is_a_reason_and_not_a_failure(
    library: Library, cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = measure(library, monkeypatch, peer_error=0.5)[0]
    assert row.peers[0].series is None
    assert str(row.peers[0].reason).startswith("wrong output: sequence")


def test_a_paged_case_is_measured_through_the_paged_entry_and_sdpa_is_not_applicable(
    library: Library, cuda: FakeCuda
) -> None:
    call = plan_case(library, PAGED, variant=None, device_sm_count=132)
    (row,) = open_fake(library, "sdpa").measure(PAGED, [call])
    assert (row.kernel, row.case) == ("attn_paged_decode_split_kv_mma", PAGED)
    assert row.ceiling.bytes - row.traffic.bytes < 256
    assert [(peer.series, peer.reason) for peer in row.peers] == [(None, "not applicable, it takes no page table")] * 2


def compare(library: Library, case: DecodeCase = CASE) -> tuple[tuple[Row, ...], tuple[Comparison, ...]]:
    prefix = "attn_paged_decode_split_kv_mma" if case.page_size else "attn_decode_split_kv_mma"
    calls = [
        plan_case(library, case, variant=f"{prefix}.bf16.d64{suffix}", device_sm_count=132) for suffix in (".s1", "")
    ]
    return open_fake(library).compare(case, list(zip(("stages=1", "stages=2"), calls, strict=True)))


@pytest.mark.parametrize("case", [CASE, PAGED])
def test_arms_are_sampled_in_the_same_rounds_into_outputs_of_their_own(
    library: Library, cuda: FakeCuda, case: DecodeCase
) -> None:
    rows, (found,) = compare(library, case)
    assert [(row.arm, row.variant.rpartition(".")[2]) for row in rows] == [("stages=1", "s1"), ("stages=2", "d64")]
    assert (found.base, found.other) == rows
    assert found.bits.equal
    assert found.bits.total == rows[0].slots * 2 * 8 * 64
    assert len(found.ratios) == len(rows[0].series.samples) == len(rows[1].series.samples) == 2
    assert (found.ratio, found.verdict) == (1.0, "same")
    assert {row.ceiling.series.median_us for row in rows} == {US_PER_CALL}


def test_arms_whose_outputs_differ_say_by_how_much(library: Library, cuda: FakeCuda) -> None:
    decode = library.module.decode
    second = library.index["attn_decode_split_kv_mma.bf16.d64"]

    def off_by_an_ulp(*args: Any) -> None:
        decode(*args)
        if args[0] == second:
            one = args[6].view(-1)[:1].view(torch.int16)
            one.add_(1)

    library.module.decode = off_by_an_ulp
    rows, (found,) = compare(library)
    assert (found.bits.differing, found.bits.equal) == (rows[0].slots, False)
    assert 0 < found.bits.largest < 0.01


def test_a_second_arm_that_writes_nothing_is_found_out(library: Library, cuda: FakeCuda) -> None:
    decode = library.module.decode
    second = library.index["attn_decode_split_kv_mma.bf16.d64"]

    def lazy(*args: Any) -> None:
        if args[0] != second or cuda.now_us < 10 * US_PER_CALL:
            decode(*args)
        else:
            cuda.now_us += US_EAGER

    library.module.decode = lazy
    with pytest.raises(WorkFailed, match=r"stages=2 on .*: NaN in 3 of 3 outputs of timed calls"):
        compare(library)
