"""Slots that outgrow the L2, and how many calls go into a sample."""

import pytest

from sparkctl.bench.axes import DecodeCase, Heads
from sparkctl.bench.buffers import allocate_slots, count_slots, plan_slot, xor_words
from sparkctl.bench.clocks import ClockReader, throttle_reasons
from sparkctl.bench.measure import MAX_CALLS, MAX_EAGER_CALLS, TARGET_SAMPLE_US, Arm, EagerTimer, plan_calls
from sparkctl.bench.traffic import decode_traffic
from sparkctl.errors import UsageError

L2 = 60 * 1024 * 1024
SMALL = DecodeCase(batch=2, kv_len=33, heads=Heads(6, 2), head_dim=96)


@pytest.mark.parametrize("kv_len", [1024, 4096, 16384, 131072])
@pytest.mark.parametrize("batch", [1, 8, 64])
def test_cold_slots_exceed_twice_the_l2_and_are_at_least_two(kv_len: int, batch: int) -> None:
    case = DecodeCase(batch, kv_len, Heads(32, 8), 128)
    count = count_slots(case, L2)
    assert count >= 2
    assert count * decode_traffic(case).kv_bytes > 2 * L2 * 0.99
    assert count * (decode_traffic(case).kv_bytes + decode_traffic(case).q_bytes) > 2 * L2


def test_a_hot_l2_uses_one_slot() -> None:
    assert count_slots(DecodeCase(1, 64, Heads(32, 8), 128, l2="hot"), L2) == 1


def test_a_case_too_small_to_be_cold_is_refused() -> None:
    with pytest.raises(UsageError, match="too few to be cold") as raised:
        count_slots(DecodeCase(1, 1, Heads(1, 1), 32), L2)
    assert "--l2 hot" in str(raised.value.hint)


def test_a_slot_holds_as_many_bytes_as_the_case_moves() -> None:
    layout = plan_slot(SMALL)
    assert 0 <= layout.size - decode_traffic(SMALL).bytes < 4 * 256
    assert layout.v % 256 == layout.q % 256 == layout.size % 256 == 0


def test_slots_differ_and_outputs_start_as_nan() -> None:
    slots = allocate_slots(SMALL, 3, device="cpu")
    assert slots.k[0].shape == (2, 33, 2, 96)
    assert slots.q[0].shape == slots.out[0].shape == (2, 1, 6, 96)
    assert not slots.k[0].equal(slots.k[1])
    assert not slots.k[0].equal(slots.v[0])
    assert slots.out[2].isnan().all()
    assert slots.k[0].float().std().item() == pytest.approx(1.0, abs=0.05)


def test_views_share_the_slots_memory_without_overlap() -> None:
    slots = allocate_slots(SMALL, 1, device="cpu")
    slots.raw[0].zero_()
    slots.v[0].fill_(1.0)
    assert slots.k[0].count_nonzero() == 0
    assert slots.q[0].count_nonzero() == 0
    assert slots.v[0].sum() == slots.v[0].numel()


def test_no_keys_make_empty_views() -> None:
    assert allocate_slots(DecodeCase(1, 0, Heads(2, 1), 64), 1, device="cpu").k[0].shape == (1, 0, 1, 64)


@pytest.mark.parametrize("words", [1, 2, 3, 7, 100, 257])
def test_the_checksum_is_the_xor_of_every_word(words: int) -> None:
    import torch

    data = torch.randint(-(2**31), 2**31 - 1, (words,), dtype=torch.int64).to(torch.int32)
    expected = 0
    for word in data.tolist():
        expected ^= word
    assert xor_words(data) == expected & 0xFFFFFFFF


@pytest.mark.parametrize("slots", [1, 2, 9, 35, 2000, 5000])
@pytest.mark.parametrize("call_us", [0.0, 4.0, 120.0, 5000.0])
def test_a_sample_is_whole_rotations_and_long_enough(slots: int, call_us: float) -> None:
    calls = plan_calls(slots, call_us)
    assert calls % slots == 0
    assert calls <= max(MAX_CALLS, slots)
    assert calls * call_us >= TARGET_SAMPLE_US or calls + slots > MAX_CALLS


@pytest.mark.parametrize("slots", [1, 7, 9, 300])
def test_an_eager_sample_is_whole_rotations_too(slots: int, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "Event", lambda enable_timing: None)
    timer = EagerTimer(Arm("a", lambda slot: torch.empty(0)), slots=slots, calls=900, clocks=ClockReader("none"))
    assert timer.calls % slots == 0
    assert slots <= timer.calls <= max(slots, MAX_EAGER_CALLS)


def test_choices_are_not_throttling() -> None:
    assert throttle_reasons(0x01 | 0x02 | 0x10 | 0x100) == ()
    assert throttle_reasons(0x04 | 0x40) == ("power cap", "hardware thermal")
