"""Warp functions and barriers against their rules written out in Python."""

from pathlib import Path

import numpy as np
import pytest
from programs import run_case

AMOUNTS = (0, 1, 3, 5, 16, 31)
WIDTHS = (1, 2, 4, 8, 16, 32)
GROUPS = [range(12), range(12, 32)]


def sources(kind: int, amount: int, width: int) -> list[int]:
    """The lane that each lane of a warp reads: PTX ISA, shfl.sync, with the C++ functions' widths."""
    result = []
    for lane in range(32):
        first = lane // width * width
        last = first + width - 1
        if kind == 0:
            source = first + (lane * 7 + amount) % 32 % width
        elif kind == 1:
            source = lane - amount if lane - amount >= first else lane
        elif kind == 2:
            source = lane + amount if lane + amount <= last else lane
        else:
            source = lane ^ amount if lane ^ amount <= last else lane
        result.append(source)
    return result


@pytest.mark.parametrize("dtype", ["int", "unsigned", "float", "double", "long"])
def test_shuffles_of_every_type_and_width_follow_the_rules(collectives: Path, dtype: str) -> None:
    outcome = run_case(collectives, f"shuffle_{dtype}")
    values = outcome["in"].reshape(2, 32)
    for amount in AMOUNTS:
        got = outcome[f"out{amount}"].reshape(4, 6, 2, 32)
        for kind in range(4):
            for row, width in enumerate(WIDTHS):
                np.testing.assert_array_equal(got[kind, row], values[:, sources(kind, amount, width)])


def per_group(values: np.ndarray, function) -> np.ndarray:
    out = np.zeros((2, 32), np.uint32)
    for warp in range(2):
        for group in GROUPS:
            lanes = list(group)
            out[warp, lanes] = function(values[warp, lanes], lanes)
    return out


def lanes_mask(lanes) -> int:
    return sum(1 << lane for lane in lanes)


def test_votes_of_two_groups_in_one_warp_do_not_mix(collectives: Path) -> None:
    outcome = run_case(collectives, "vote")
    x = outcome["in"].reshape(2, 32)
    got = outcome["out"].reshape(5, 2, 32)
    matches = per_group(x, lambda v, lanes: [lanes_mask(m for m, w in zip(lanes, v, strict=True) if w == u) for u in v])
    halves = per_group(
        x // 2, lambda v, lanes: [lanes_mask(m for m, w in zip(lanes, v, strict=True) if w == u) for u in v]
    )
    ballots = per_group(x, lambda v, lanes: lanes_mask(m for m, w in zip(lanes, v, strict=True) if w & 1))
    np.testing.assert_array_equal(got[0], ballots)
    np.testing.assert_array_equal(got[1], per_group(x, lambda v, lanes: int((v != 0).all())))
    np.testing.assert_array_equal(got[2], per_group(x, lambda v, lanes: int((v == 0).any())))
    np.testing.assert_array_equal(got[3], matches)
    np.testing.assert_array_equal(got[4], halves)


def test_reductions_of_words(collectives: Path) -> None:
    outcome = run_case(collectives, "reduce")
    x = outcome["in"].reshape(2, 32)
    got = outcome["out"].reshape(8, 2, 32)
    signed = x.view(np.int32)
    expected = [
        per_group(x, lambda v, lanes: np.sum(v, dtype=np.uint32)),
        per_group(x, lambda v, lanes: v.min()),
        per_group(x, lambda v, lanes: v.max()),
        per_group(x, lambda v, lanes: np.bitwise_and.reduce(v | 0x80)),
        per_group(x, lambda v, lanes: np.bitwise_or.reduce(v & 0xFF)),
        per_group(x, lambda v, lanes: np.bitwise_xor.reduce(v)),
        per_group(signed, lambda v, lanes: v.min().view(np.uint32)),
        per_group(signed, lambda v, lanes: v.max().view(np.uint32)),
    ]
    np.testing.assert_array_equal(got, expected)


def test_block_wide_votes(collectives: Path) -> None:
    outcome = run_case(collectives, "block_vote")
    x = outcome["in"]
    got = outcome["out"].reshape(5, 64)
    assert (got[0] == np.sum(x % 2 == 0)).all()
    assert [row[0] for row in got[1:]] == [1, 0, 1, 0]
    assert (got == got[:, :1]).all()


@pytest.mark.parametrize("schedule", ["ascending", "descending", "random"])
def test_named_barriers_order_a_producer_and_a_consumer(collectives: Path, schedule: str) -> None:
    outcome = run_case(collectives, "producer", schedule=schedule)
    assert outcome.code == 0, outcome.error
    got = outcome["out"].reshape(2, 2, 32)
    assert (got[0, 0] == 1).all()
    np.testing.assert_array_equal(got[0, 1], outcome["in"][31::-1] * np.uint32(3))
    assert (got[1] == [[0], [1]]).all()


def test_the_header_reductions_are_the_butterfly_bit_for_bit(collectives: Path) -> None:
    outcome = run_case(collectives, "warp_header")
    got = outcome["out"].reshape(6, 64)
    assert (got[:4] == 1).all()
    np.testing.assert_array_equal(got[4], np.arange(64))
    x = outcome["in"].view(np.int32).astype(np.float32) * np.float32(1e-3)
    pairs = x.reshape(16, 4)[:, [0, 2]] + x.reshape(16, 4)[:, [1, 3]]
    np.testing.assert_array_equal(got[5].view(np.float32).reshape(16, 4), np.repeat(pairs.sum(1)[:, None], 4, axis=1))


def test_bit_functions(collectives: Path) -> None:
    outcome = run_case(collectives, "bits")
    got = outcome["out"].reshape(8, 64)
    for i, word in enumerate(outcome["in"]):
        x = int(word)
        signed = x - (1 << 32) if x >> 31 else x
        high = x & 0xFFF00000
        both = (x ^ 0xFFFFFFFF) << 32 | x
        byte = [both >> 8 * (n & 7) & 0xFF for n in (0x1, 0x5, 0xC, 0x9)]  # the selector, low nibble first
        assert got[0, i] == bin(x).count("1")
        assert got[1, i] == (high & -high).bit_length()
        assert got[2, i] == 32 - (x >> i % 33 % 32).bit_length()
        assert got[3, i] == int(f"{x:032b}"[::-1], 2)
        assert got[4, i] == sum(b << 8 * n for n, b in enumerate(byte))
        assert got[5, i] == x * 0x9E3779B9 >> 32
        assert got[6, i].view(np.int32) == round(float(np.float32(np.float32(signed) * np.float32(1e-8))))
        assert int(got[7, i].view(np.int32)) == min(signed, 5) + max(signed, 7) or abs(signed) > 1 << 30
