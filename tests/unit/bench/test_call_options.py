"""Calls that are asked for more than plain attention: written, planned, run, counted."""

from __future__ import annotations

import pytest
import torch

from sparkctl.bench.arms import decode_arm, plan_case, shape_of
from sparkctl.bench.axes import DecodeCase, Heads
from sparkctl.bench.buffers import allocate_slots, count_slots
from sparkctl.bench.call_options import PLAIN, CallOptions, parse_call_options
from sparkctl.bench.traffic import decode_traffic, visible_pairs
from sparkctl.errors import UsageError
from sparkctl.runtime import Library
from sparkctl.testing.reference import visible_keys
from sparkctl.workflows.bench_ab import parse_options
from sparkctl.workflows.bench_verify import verify_outputs

CASE = DecodeCase(2, 300, Heads(8, 2), 64)
RAGGED = DecodeCase(2, 300, Heads(8, 2), 64, page_size=16, kv_lens=(300, 40))


@pytest.mark.parametrize("text", ["lse", "window=4k", "softcap=30", "softcap=0.5", "sinks", "lse+window=0+sinks"])
def test_options_print_as_they_are_written(text: str) -> None:
    assert str(parse_call_options(text)) == text
    assert parse_options(text).labels == ("plain", text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "--options: is empty"),
        ("lsee", "--options: unknown option 'lsee'"),
        ("plain", "--options: unknown option 'plain'"),
        ("lse,lse", "lse is written twice"),
        ("window=4k,window=4096", "written twice, as window=4k too"),
        ("lse+lse", "'lse+lse': lse is written twice"),
        ("lse=1", "'lse=1': lse takes no value"),
        ("window", "'window': window takes a value"),
        ("window=x", "window: 'x' is not a size"),
        ("window=-1", "window: '-1' is not a size"),
        ("softcap=0", "softcap: '0' is not accepted"),
        ("softcap=nan", "softcap: 'nan' is not accepted"),
        ("softcap=1e9", "softcap: '1e9' is not accepted"),
    ],
)
def test_what_is_no_option_is_one_error(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_options(text)
    assert message in caught.value.message


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [0, 1, 5, 400])
@pytest.mark.parametrize(("qo_len", "kv_len"), [(1, 300), (3, 300), (4, 2)])
def test_pairs_behind_a_window_are_those_that_the_reference_sees(
    qo_len: int, kv_len: int, window: int, causal: bool
) -> None:
    case = DecodeCase(1, kv_len, Heads(1, 1), 64, qo_len=qo_len, causal=causal)
    q, k = torch.zeros(1, qo_len, 1, 64), torch.zeros(1, kv_len, 1, 64)
    assert visible_pairs(case, kv_len, window) == int(visible_keys(q, k, None, causal, window, None).sum())


def test_only_what_a_window_shows_is_counted_and_the_lse_is_written() -> None:
    plain, window = decode_traffic(CASE), decode_traffic(CASE, CallOptions(window=99))
    assert window.kv_bytes * 3 == plain.kv_bytes
    assert decode_traffic(CASE, CallOptions(lse=True)).bytes == plain.bytes + 4 * 2 * 8
    assert decode_traffic(RAGGED, CallOptions(window=99)).kv_bytes == 2 * 140 * 2 * 64 * 2


def test_a_window_is_planned_for_its_keys_and_stays_cold() -> None:
    assert shape_of(CASE, CallOptions(window=99)).kv_len == 100
    least = count_slots(CASE, 2**20, (PLAIN, CallOptions(window=99)))
    assert least > 2 * count_slots(CASE, 2**20)


@pytest.mark.parametrize("case", [CASE, RAGGED])
@pytest.mark.parametrize(
    "options",
    [PLAIN, CallOptions(lse=True), CallOptions(window=50), CallOptions(softcap=2.0), CallOptions(sinks=True, lse=True)],
    ids=str,
)
def test_an_arm_asks_for_its_options_and_is_checked_against_them(
    library: Library, case: DecodeCase, options: CallOptions
) -> None:
    slots = allocate_slots(case, 2, device="cpu")
    call = plan_case(library, case, variant=None, device_sm_count=132, options=options)
    arm = decode_arm(case, slots, call, options=options)
    out = arm.arm.call(1)
    lse = arm.lse[1] if options.lse else None
    keys = slots.keys(case, 1)
    (verdict,) = verify_outputs(case, slots.q[1], *keys, [out], arm.attention, lse)
    assert verdict.worst <= 1.0
    wrong = decode_arm(case, slots, call, options=CallOptions(window=10)).attention
    assert verify_outputs(case, slots.q[1], *keys, [out], wrong, None)[0].worst > 1.0
    if lse is not None:
        lse[0, 0, 0] += 0.1
        assert "lse" in verify_outputs(case, slots.q[1], *keys, [out], arm.attention, lse)[0].text
        arm.poison()
        assert lse.isnan().all()
