"""A whole case through the session on a device that is made up: what is measured, what is found out, what goes on."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from fake_device import ILLEGAL, FakeDevice

from sparkctl.bench.ab import Comparison
from sparkctl.bench.arms import plan_case
from sparkctl.bench.axes import DecodeCase, Heads
from sparkctl.bench.buffers import Slots
from sparkctl.bench.facts import DeviceFacts
from sparkctl.bench.faults import DeviceLost
from sparkctl.bench.measure import HOLD_CYCLES_PER_US
from sparkctl.bench.peers import PEERS, PeerArm
from sparkctl.bench.results import Failure, Row, Sample
from sparkctl.bench.session import CudaSession
from sparkctl.bench.statistics import StopRule
from sparkctl.errors import WorkFailed
from sparkctl.runtime import Library
from sparkctl.workflows.bench_verify import verify_outputs

CASE = DecodeCase(batch=2, kv_len=200, heads=Heads(8, 2), head_dim=64)
PAGED = replace(CASE, page_size=16)
FACTS = DeviceFacts("NVIDIA H200", "sm_90", 132, 250_000, None, "13.0", "2.11", None, "3.12", "no NVML here")
OURS = ("attn_decode_split_kv_mma.bf16.d64", "attn_decode_split_kv_mma.bf16.d64.s4")
PHASES = ("call", "capture", "replay")
RULE = StopRule(min_samples=2, max_samples=3)


def make_peer(library: Library, device: FakeDevice, error: float) -> Callable[[DecodeCase, Slots], Sequence[PeerArm]]:
    """Our own decode with `error` added, and an arm that cannot run."""

    def arms(case: DecodeCase, slots: Slots) -> tuple[PeerArm, ...]:
        outs = [torch.empty_like(out) for out in slots.out]

        def call(slot: int) -> torch.Tensor:
            def run() -> None:
                inputs = (slots.q[slot], slots.k[slot], slots.v[slot], None, outs[slot], None, None, None, None)
                library.module.decode(0, 0, *inputs, 0.125, False)
                outs[slot].add_(error)

            device.enqueue("good", outs[slot].data_ptr(), run)
            return outs[slot]

        return (PeerArm("good", call), PeerArm("absent", None, "no such backend"))

    return arms


def open_fake(library: Library, device: FakeDevice, *peers: str, rule: StopRule = RULE) -> CudaSession:
    return CudaSession(
        library,
        device=device,
        facts=FACTS,
        clocks=device,
        peers=peers,
        verify=verify_outputs,
        budget_s=0.0,
        rule=rule,
        warm_up_s=0.0,
    )


@pytest.fixture(autouse=True)
def peer(library: Library, device: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PEERS, "fake", make_peer(library, device, 0.0))


def measure(library: Library, device: FakeDevice, variants: Sequence[str] = OURS) -> tuple[Row | Failure, ...]:
    calls = [plan_case(library, CASE, variant=name, device_sm_count=132) for name in variants]
    return tuple(open_fake(library, device, "fake").measure(CASE, calls))


def only_row(found: Sequence[Row | Failure]) -> Row:
    (row,) = found
    assert isinstance(row, Row)
    return row


def only_failure(found: Sequence[Row | Failure]) -> Failure:
    (failure,) = found
    assert isinstance(failure, Failure)
    return failure


def test_a_case_gives_a_row_per_variant_with_all_that_belongs_to_it(library: Library, device: FakeDevice) -> None:
    times = {OURS[0]: 300.0, OURS[1]: 310.0, "stream_read": 280.0, "good": 450.0}
    device.sample_of = lambda name, index: Sample(times[name], 1980)
    rows = [row for row in measure(library, device) if isinstance(row, Row)]
    assert [row.variant for row in rows] == list(OURS)
    row = rows[0]
    assert row.slots == 2 * FACTS.l2_bytes // (row.traffic.kv_bytes + row.traffic.q_bytes) + 1 == 3
    assert row.series.median_us == pytest.approx(300.0)
    assert row.series.calls % row.slots == 0
    assert row.eager.median_us > 300.0  # the host's time is in it
    assert row.ceiling.series.median_us == pytest.approx(280.0)
    assert row.ceiling.kernel.startswith("stream_read.")
    assert [(peer.name, peer.series is None, peer.reason) for peer in row.peers] == [
        ("good", False, None),
        ("absent", True, "no such backend"),
    ]
    assert row.peers[0].series is not None
    assert row.peers[0].series.median_us == pytest.approx(450.0)
    assert row.error.endswith("of what is allowed")
    assert row.series.samples[0].sm_clock_mhz == 1980
    assert device.resets == 1


def test_the_device_is_held_until_the_host_has_enqueued_so_that_no_gap_is_timed(
    library: Library, device: FakeDevice
) -> None:
    device.sample_of = lambda name, index: Sample(0.1)  # gone before the host is ready with the next
    row = only_row(measure(library, device, OURS[:1]))
    assert row.series.median_us == pytest.approx(0.1)
    assert min(device.held) >= 50 * HOLD_CYCLES_PER_US
    device.hold = lambda cycles: None  # type: ignore[method-assign]
    assert only_row(measure(library, device, OURS[:1])).series.median_us > 0.1


def test_a_replay_that_writes_nothing_is_found_out(library: Library, device: FakeDevice) -> None:
    decode = library.module.decode

    def lazy(*args: Any) -> None:
        if device.taken.get(OURS[0], 0) < 4:  # works while it is warmed up
            decode(*args)

    library.module.decode = lazy
    failure = only_failure(measure(library, device, OURS[:1]))
    assert (failure.case, failure.variant) == (CASE, OURS[0])
    assert failure.reason == "NaN in 3 of 3 outputs of timed calls"


def test_an_answer_kept_from_an_earlier_call_is_found_out(library: Library, device: FakeDevice) -> None:
    decode, kept = library.module.decode, {}

    def remembering(*args: Any) -> None:
        out, key = args[6], args[3].data_ptr()
        if key not in kept:
            decode(*args)
            kept[key] = out.clone()
        out.copy_(kept[key])

    library.module.decode = remembering
    assert only_failure(measure(library, device, OURS[:1])).reason.startswith("wrong output of a timed call: sequence")


def test_a_wrong_output_of_ours_is_that_row_and_the_others_follow(library: Library, device: FakeDevice) -> None:
    decode = library.module.decode

    def wrong(*args: Any) -> None:
        decode(*args)
        if args[0] == library.index[OURS[0]]:
            args[6].mul_(1.1)

    library.module.decode = wrong
    failure, row = measure(library, device)
    assert isinstance(failure, Failure)
    assert (failure.variant, failure.reason[:37]) == (OURS[0], "wrong output of a timed call: sequenc")
    assert isinstance(row, Row)
    assert row.variant == OURS[1]


@pytest.mark.parametrize("phase", PHASES)
def test_a_variant_of_ours_that_fails_is_that_row_and_the_others_follow(
    library: Library, device: FakeDevice, phase: str
) -> None:
    device.faults[phase, OURS[0]] = RuntimeError("CUDA error: invalid argument\nmore")
    failure, row = measure(library, device)
    assert isinstance(failure, Failure)
    assert failure.reason == "RuntimeError: CUDA error: invalid argument"
    assert isinstance(row, Row)
    assert row.variant == OURS[1]


def test_where_nothing_can_run_the_case_fails_and_its_memory_is_given_back(
    library: Library, device: FakeDevice
) -> None:
    device.faults["call", "stream_read"] = RuntimeError("no such kernel")
    with pytest.raises(WorkFailed, match="RuntimeError: no such kernel"):
        measure(library, device)
    assert device.released == 1


def test_a_wrong_peer_is_a_reason_and_not_a_failure(
    library: Library, device: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PEERS, "fake", make_peer(library, device, 0.5))
    row = only_row(measure(library, device, OURS[:1]))
    assert row.peers[0].series is None
    assert str(row.peers[0].reason).startswith("wrong output: sequence")


def test_libraries_that_are_absent_or_wrong_are_reasons_and_the_row_stands(
    library: Library, device: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = types.ModuleType("fa3_fwd_interface")
    wrong.flash_attn_with_kvcache = lambda q, k, v, **options: torch.zeros_like(q)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fa3_fwd_interface", wrong)
    monkeypatch.setitem(sys.modules, "flashinfer", None)  # type: ignore[arg-type]
    call = plan_case(library, CASE, variant=OURS[0], device_sm_count=132)
    row = only_row(open_fake(library, device, "fa3", "flashinfer").measure(CASE, [call]))
    assert all(peer.series is None for peer in row.peers)
    fa3, flashinfer = row.peers
    assert str(fa3.reason).startswith("wrong output: sequence")
    assert (flashinfer.name, flashinfer.reason) == ("FlashInfer", "the package flashinfer-python is not installed")


@pytest.mark.parametrize("phase", PHASES)
def test_a_peer_that_crashes_is_a_reason_on_its_row(library: Library, device: FakeDevice, phase: str) -> None:
    device.faults[phase, "good"] = ValueError("no plan for this shape\nat line 3")
    row = only_row(measure(library, device, OURS[:1]))
    assert [(peer.series, peer.reason) for peer in row.peers] == [
        (None, "ValueError: no plan for this shape"),
        (None, "no such backend"),
    ]


def test_a_peer_that_crashes_between_timed_calls_is_a_reason_on_its_row(library: Library, device: FakeDevice) -> None:
    def sample_of(name: str, index: int) -> Sample:
        if name == "good" and index == 20:
            device.faults["replay", "good"] = RuntimeError("it has had enough")
        return Sample(300.0)

    device.sample_of = sample_of
    device.free = 10**12
    calls = [plan_case(library, CASE, variant=OURS[0], device_sm_count=132)]
    session = open_fake(library, device, "fake", rule=StopRule(min_samples=30, max_samples=30))
    session._budget_s = 1e9
    row = only_row(tuple(session.measure(CASE, calls)))
    assert row.peers[0].reason == "RuntimeError: it has had enough"
    assert len(row.series.samples) == 31


def test_a_peer_that_crashes_in_planning_is_a_reason_under_its_own_name(
    library: Library, device: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(case: DecodeCase, slots: Slots) -> Any:
        raise KeyError("page_size")

    monkeypatch.setitem(PEERS, "fake", crash)
    (peer,) = only_row(measure(library, device, OURS[:1])).peers
    assert (peer.name, peer.series, peer.reason) == ("fake", None, "KeyError: 'page_size'")


def test_a_peer_that_wants_too_much_memory_is_a_reason(library: Library, device: FakeDevice) -> None:
    device.faults["call", "good"] = RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB.\nGPU 0 …")
    row = only_row(measure(library, device, OURS[:1]))
    assert row.peers[0].reason == "out of memory: CUDA out of memory. Tried to allocate 2.00 GiB."


@pytest.mark.parametrize(("phase", "name"), [("call", "good"), ("replay", "good"), ("replay", OURS[0])])
def test_a_lost_device_ends_the_run_and_says_who_ran(
    library: Library, device: FakeDevice, phase: str, name: str
) -> None:
    device.faults[phase, name] = RuntimeError(ILLEGAL)
    with pytest.raises(DeviceLost) as raised:
        measure(library, device)
    assert raised.value.message == (
        f"the device was lost while {name} ran: CUDA error: an illegal memory access was encountered"
    )


def test_an_interrupt_is_not_an_error_of_a_peer(library: Library, device: FakeDevice) -> None:
    device.faults["replay", "good"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        measure(library, device)


def test_a_case_that_does_not_fit_says_what_it_needs_and_what_is_free(library: Library, device: FakeDevice) -> None:
    device.free = 100_000
    with pytest.raises(
        WorkFailed,
        match=r"needs 626\.7 kB \(3 × 208\.9 kB\); 100\.0 kB are free on cpu, of which 90% may be taken: 90\.0 kB",
    ):
        measure(library, device)


def test_a_paged_case_is_measured_through_the_paged_entry_and_sdpa_is_not_applicable(
    library: Library, device: FakeDevice
) -> None:
    call = plan_case(library, PAGED, variant=None, device_sm_count=132)
    row = only_row(tuple(open_fake(library, device, "sdpa").measure(PAGED, [call])))
    assert (row.kernel, row.case) == ("attn_paged_decode_split_kv_mma", PAGED)
    assert row.ceiling.bytes - row.traffic.bytes < 256
    assert [(peer.series, peer.reason) for peer in row.peers] == [(None, "not applicable, it takes no page table")] * 2


# Bits are equal: stages change none, and the rounding of the outputs hides the other order of tiles of 128 keys.
ARMS = {
    CASE: ("attn_decode_split_kv_mma.bf16.d64.s1", "attn_decode_split_kv_mma.bf16.d64"),
    PAGED: ("attn_paged_decode_split_kv_mma.bf16.d64.kv128", "attn_paged_decode_split_kv_mma.bf16.d64"),
}


def compare(
    library: Library, device: FakeDevice, case: DecodeCase = CASE
) -> tuple[tuple[Row, ...], tuple[Comparison, ...]]:
    variants = ARMS[case]
    calls = [plan_case(library, case, variant=name, device_sm_count=132) for name in variants]
    return open_fake(library, device).compare(case, list(zip(("first", "second"), calls, strict=True)))


@pytest.mark.parametrize("case", [CASE, PAGED])
def test_arms_are_sampled_in_the_same_rounds_into_outputs_of_their_own(
    library: Library, device: FakeDevice, case: DecodeCase
) -> None:
    rows, (found,) = compare(library, device, case)
    assert [(row.arm, row.variant) for row in rows] == list(zip(("first", "second"), ARMS[case], strict=True))
    assert (found.base, found.other) == rows
    assert found.bits.equal
    assert found.bits.total == rows[0].slots * 2 * 8 * 64
    assert len(found.ratios) == len(rows[0].series.samples) == len(rows[1].series.samples) == 3
    assert (found.ratio, found.verdict) == (pytest.approx(1.0), "same")
    assert {round(row.ceiling.series.median_us, 6) for row in rows} == {300.0}


def test_arms_whose_outputs_differ_say_by_how_much(library: Library, device: FakeDevice) -> None:
    decode = library.module.decode
    second = library.index["attn_decode_split_kv_mma.bf16.d64"]

    def off_by_an_ulp(*args: Any) -> None:
        decode(*args)
        if args[0] == second:
            one = args[6].view(-1)[:1].view(torch.int16)
            one.add_(1)

    library.module.decode = off_by_an_ulp
    rows, (found,) = compare(library, device)
    assert (found.bits.differing, found.bits.equal) == (rows[0].slots, False)
    assert 0 < found.bits.largest < 0.01


def test_a_second_arm_that_writes_nothing_is_found_out(library: Library, device: FakeDevice) -> None:
    decode = library.module.decode
    second = library.index["attn_decode_split_kv_mma.bf16.d64"]

    def lazy(*args: Any) -> None:
        if args[0] != second or device.taken.get(OURS[0], 0) < 4:
            decode(*args)

    library.module.decode = lazy
    with pytest.raises(WorkFailed, match=r"NaN in 3 of 3 outputs of timed calls"):
        compare(library, device)


def test_an_arm_that_fails_names_itself(library: Library, device: FakeDevice) -> None:
    device.faults["capture", OURS[0]] = RuntimeError("too many registers")
    with pytest.raises(WorkFailed, match="second: RuntimeError: too many registers"):
        compare(library, device)
