"""Cases of prefill: read, spanned, planned, called, counted, checked; the peers that run them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_device import FakeDevice, fake_library
from fake_peers import FakeFa3, FakeFlashInfer, arm_of, attend, check_every_slot

from sparkctl.arch import Arch
from sparkctl.bench.arms import decode_arm, plan_case
from sparkctl.bench.axes import DecodeCase, Heads, parse_case, same_keys, span_cases
from sparkctl.bench.buffers import allocate_slots
from sparkctl.bench.peers import PEERS
from sparkctl.bench.record import case_record
from sparkctl.bench.saved import _parse_case
from sparkctl.bench.traffic import decode_traffic
from sparkctl.errors import UsageError
from sparkctl.registry import load_registry
from sparkctl.runtime import Library
from sparkctl.workflows.bench_ab import parse_ab, parse_options
from sparkctl.workflows.bench_plan import plan_bench
from sparkctl.workflows.bench_request import BenchRequest
from sparkctl.workflows.bench_verify import SPAN, checked_spans, verify_outputs

ROOT = Path(__file__).resolve().parents[3]
CASE = DecodeCase(2, 200, Heads(8, 2), 64, qo_len=200, causal=True, prefill=True)
FULL = replace(CASE, causal=False)
CHUNK = replace(CASE, qo_len=70)
PAGED = replace(CHUNK, page_size=16)
each_case = pytest.mark.parametrize("case", [CASE, FULL, CHUNK, PAGED], ids=lambda case: case.label)


@each_case
def test_a_label_and_a_record_read_back_as_their_case(case: DecodeCase) -> None:
    found, stated = parse_case(case.label)
    assert found == case
    assert {"qo_len", "prefill"} <= stated
    assert _parse_case(json.loads(json.dumps(case_record(case)))) == case


def test_prefill_has_as_many_queries_as_keys_unless_it_says_another_number() -> None:
    assert CASE.label == "2 × 200, 8/2, d64, bf16, prefill, causal"
    assert CHUNK.label == "2 × 200, 8/2, d64, bf16, prefill, qo_len 70, causal"
    shape: dict[str, Any] = {"heads": (Heads(8, 2),), "head_dims": (64,), "dtypes": ("bf16",), "prefill": True}
    cases = span_cases(keys=same_keys((64, 128), (1,)), qo_lens=(None,), **shape)
    assert [(case.qo_len, case.operator) for case in cases] == [(64, "prefill"), (128, "prefill")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2 x 64+128, 8/2, d64, prefill", "no prefill of several lengths"),
        ("1 x 64, 8/2, d64, prefill, 4 splits", "prefill divides no keys"),
        ("1 x 64, 8/2, d64, prefill, qo_len 65, causal", "leaves queries without a key"),
    ],
)
def test_what_prefill_has_not_is_an_error(text: str, message: str) -> None:
    from sparkctl.bench.axes import check_case

    with pytest.raises(UsageError, match=message):
        check_case(parse_case(text)[0])


def test_operations_are_counted_with_the_causal_half() -> None:
    full, causal, chunk = (decode_traffic(case).flops for case in (FULL, CASE, CHUNK))
    assert full == 4 * 2 * 8 * 64 * 200 * 200
    assert causal == 4 * 2 * 8 * 64 * (200 * 201 // 2)
    assert chunk == 4 * 2 * 8 * 64 * sum(range(131, 201))


@each_case
def test_the_entry_computes_the_case_and_gets_nothing_of_decode(
    device: FakeDevice, library: Library, case: DecodeCase
) -> None:
    slots = allocate_slots(case, 2, device="cpu")
    call = plan_case(library, case, variant=None, device_sm_count=132)
    assert call.plan.variant == "attn_prefill_split_q_mma.bf16.d64" + (".p1" if case is PAGED else "")
    assert call.plan.num_splits == 1
    arm = decode_arm(case, slots, call)
    assert arm.workspace is None
    out = arm.arm.call(1)
    (verdict,) = verify_outputs(case, slots.q[1], *slots.keys(case, 1), [out])
    assert verdict.worst <= 1.0, verdict.text
    arm.poison()
    assert slots.out[1].isnan().all()


def test_a_variant_of_the_other_kind_of_keys_is_refused(library: Library) -> None:
    with pytest.raises(UsageError, match="takes pages"):
        plan_case(library, CASE, variant="attn_prefill_split_q_mma.bf16.d64.p1", device_sm_count=132)
    with pytest.raises(UsageError, match="no prefill kernel accepts it"):
        plan_case(fake_library(FakeDevice(), head_dim=128), CASE, variant=None, device_sm_count=132)


def test_the_first_middle_and_last_positions_are_compared() -> None:
    assert checked_spans(SPAN) == [(0, SPAN)]
    assert checked_spans(16384) == [(0, 64), (8160, 8224), (16320, 16384)]
    assert checked_spans(65) == [(0, 64), (1, 65)]


@pytest.mark.parametrize("case", [CASE, FULL, CHUNK])
@pytest.mark.parametrize("where", ["first", "middle", "last"])
def test_a_wrong_row_in_a_span_is_found(case: DecodeCase, where: str) -> None:
    slots = allocate_slots(case, 1, device="cpu")
    out = attend(slots.q[0], slots.k[0], slots.v[0], 0.125, case.causal)
    right, wrong = out.clone(), out
    wrong[1, {"first": 0, "middle": case.qo_len // 2, "last": -1}[where], 3] += 1
    found = verify_outputs(case, slots.q[0], slots.k[0], slots.v[0], [right, wrong])
    assert [verdict.worst <= 1.0 for verdict in found] == [True, False]


def plan(case: DecodeCase, **request: Any) -> list[str]:
    registry = load_registry(ROOT / "flags.yaml")
    planned = plan_bench(registry, BenchRequest((case,), pages_given=True, **request), Arch(9, 0))
    return [variant.name for variant in planned.variants if variant.kernel.family == "prefill"]


def test_without_a_name_every_variant_of_the_shape_is_there_and_with_one_its_own() -> None:
    assert sorted(plan(CASE)) == [
        "attn_prefill_split_q.bf16.d64",
        "attn_prefill_split_q.bf16.d64.l8",
        "attn_prefill_split_q_mma.bf16.d64",
    ]
    assert plan(PAGED, patterns=("attn_prefill_split_q_mma",)) == ["attn_prefill_split_q_mma.bf16.d64.p1"]


@pytest.mark.parametrize(
    ("case", "patterns", "message"),
    [
        (CASE, ("attn_decode_split_kv_mma",), "attn_decode_split_kv_mma has no prefill over contiguous K and V"),
        (replace(CASE, prefill=False, qo_len=1), ("attn_prefill_split_q",), "bench has no cases for attn_prefill"),
    ],
)
def test_a_kernel_of_the_other_operator_is_an_error_with_the_way_out(
    case: DecodeCase, patterns: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        plan(case, patterns=patterns)
    assert "--prefill measures" in (caught.value.hint or "")


def test_arms_of_an_axis_of_prefill_are_compared_and_those_of_decode_refused() -> None:
    registry = load_registry(ROOT / "flags.yaml")
    lanes = parse_ab(registry, "lanes=4,8")
    request = BenchRequest((CASE,), pages_given=True, ab=lanes)
    (job,) = plan_bench(registry, request, Arch(9, 0)).jobs
    assert [arm.variant for arm in job.arms] == ["attn_prefill_split_q.bf16.d64", "attn_prefill_split_q.bf16.d64.l8"]
    for ab in (parse_ab(registry, "num_splits=1,2"), parse_options("lse")):
        with pytest.raises(UsageError, match="is of decode"):
            plan_bench(registry, BenchRequest((CASE,), ab=ab), Arch(9, 0))


def test_sdpa_takes_its_own_causal_mask_where_it_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch.nn.functional as functional

    asked: list[dict[str, Any]] = []
    real = functional.scaled_dot_product_attention

    def keep(*args: Any, **options: Any) -> Any:
        asked.append(options)
        return real(*args, **options)

    monkeypatch.setattr(functional, "scaled_dot_product_attention", keep)
    slots = allocate_slots(CASE, 2, device="cpu")
    arm = next(arm for arm in PEERS["sdpa"](CASE, slots) if arm.name == "SDPA flash")
    if arm.call is None:  # a CPU without that backend for groups
        pytest.skip(f"SDPA flash: {arm.reason}")
    check_every_slot(arm, CASE, slots)
    assert asked[-1]["is_causal"] is True
    reason = PEERS["sdpa"](CHUNK, allocate_slots(CHUNK, 1, device="cpu"))[0].reason
    assert reason == "its causal mask is aligned to the top left, not the bottom right"


@pytest.mark.parametrize("with_lse", [False, True])
@pytest.mark.parametrize("case", [CASE, FULL, CHUNK])
def test_fa3_runs_prefill_through_its_own_entry(fa3: FakeFa3, case: DecodeCase, with_lse: bool) -> None:
    def whole(q: Any, k: Any, v: Any, *, softmax_scale: float, causal: bool) -> Any:
        out = attend(q, k, v, softmax_scale, causal)
        return (out, None) if with_lse else out

    fa3.flash_attn_func = whole  # type: ignore[attr-defined]
    arm, slots = arm_of("fa3", "FA3", case)
    check_every_slot(arm, case, slots)
    assert fa3.calls == []
    del fa3.flash_attn_func  # type: ignore[attr-defined]
    arm, slots = arm_of("fa3", "FA3", case)
    check_every_slot(arm, case, slots)
    assert len(fa3.calls) > 0


@pytest.mark.parametrize("backend", ["fa2", "fa3"])
@each_case
def test_flashinfer_has_two_kernels_for_prefill(flashinfer: FakeFlashInfer, case: DecodeCase, backend: str) -> None:
    assert [arm.name for arm in PEERS["flashinfer"](case, allocate_slots(case, 1, device="cpu"))] == [
        "FlashInfer fa2",
        "FlashInfer fa3",
    ]
    flashinfer.wrappers.clear()
    arm, slots = arm_of("flashinfer", f"FlashInfer {backend}", case)
    check_every_slot(arm, case, slots)
    used = [wrapper for wrapper in flashinfer.wrappers if wrapper.options == {"backend": backend}]
    assert used
    assert {wrapper.kind for wrapper in used} == {"prefill"}
    assert used[0].planned["causal"] is case.causal
