"""cp.async in its three modes: healthy kernels agree in all of them, broken twins show in the mode meant for them."""

from pathlib import Path

import numpy as np
import pytest
from programs import line_of, run_case

MODES = ("late", "early", "random")
SCHEDULES = ("ascending", "descending", "random")
POISON = 0xFFFFFFFF


def expected_stream() -> np.ndarray:
    values = np.arange(1, 9 * 256 + 1, dtype=np.float32).reshape(9, 64, 4)
    return np.roll(values.sum(2), -1, axis=1).reshape(-1)


@pytest.mark.parametrize("copies", MODES)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_healthy_pipeline_gives_the_same_in_every_mode_and_schedule(
    async_copies: Path, copies: str, schedule: str
) -> None:
    outcome = run_case(async_copies, "stream", copies=copies, schedule=schedule)
    assert outcome.code == 0, outcome.error
    np.testing.assert_array_equal(outcome.view("out", "<f4"), expected_stream())


@pytest.mark.parametrize("fault", ["no_wait", "wait_too_weak"])
def test_late_copies_turn_a_missing_wait_into_nans_and_early_ones_hide_it(async_copies: Path, fault: str) -> None:
    late = run_case(async_copies, f"stream_{fault}", copies="late").view("out", "<f4")
    early = run_case(async_copies, f"stream_{fault}", copies="early").view("out", "<f4")
    assert np.isnan(late).any()
    np.testing.assert_array_equal(early, expected_stream())


@pytest.mark.parametrize("schedule", ["ascending", "descending"])
def test_early_copies_show_a_buffer_refilled_while_it_is_read(async_copies: Path, schedule: str) -> None:
    got = run_case(async_copies, "stream_refill_too_early", copies="early", schedule=schedule).view("out", "<f4")
    assert (got != expected_stream()).any()
    assert not np.isnan(got).any()


def test_late_copies_poison_a_buffer_refilled_while_it_is_read(async_copies: Path) -> None:
    got = run_case(async_copies, "stream_refill_too_early", copies="late").view("out", "<f4")
    assert np.isnan(got).any()


@pytest.mark.parametrize("copies", MODES)
def test_a_missing_barrier_after_the_wait_shows(async_copies: Path, copies: str) -> None:
    got = run_case(async_copies, "stream_no_barrier_after_wait", copies=copies).view("out", "<f4")
    assert (got != expected_stream()).any()


def test_groups_land_at_the_wait_that_guarantees_them_and_not_before(async_copies: Path) -> None:
    steps = run_case(async_copies, "groups", copies="late")["out"].reshape(6, 6).tolist()
    unwritten = [POISON]
    assert steps == [
        unwritten * 6,
        [100, 101] + unwritten * 4,
        [100, 101, 102] + unwritten * 3,
        [100, 101, 102] + unwritten * 3,  # the third group is empty
        [100, 101, 102, 0] + unwritten * 2,  # the copy that was not valid is zeros
        [100, 101, 102, 0, 104, *unwritten],  # wait_all takes also what no commit closed
    ]


def test_early_copies_are_there_at_once(async_copies: Path) -> None:
    steps = run_case(async_copies, "groups", copies="early")["out"].reshape(6, 6).tolist()
    assert steps == [[100, 101, 102, 0, 104, POISON]] * 5 + [[100, 101, 102, 0, 104, 105]]


def test_the_coin_of_random_copies_is_the_seeds(async_copies: Path) -> None:
    runs = [run_case(async_copies, "groups", copies="random", seed=seed).values for seed in range(1, 9)]
    assert len(set(runs)) > 2
    assert run_case(async_copies, "groups", copies="random", seed=3).values == runs[2]


@pytest.mark.parametrize(
    ("case", "tag", "words"),
    [
        ("misaligned_smem", "placed", "cp.async: shared address is 8 bytes past a 16-byte boundary"),
        ("misaligned_gmem", "placed", "cp.async: global address is 4 bytes past a 16-byte boundary"),
        ("past_the_array", "placed", "16 bytes at byte 64 of 'box_smem', which has 64"),
        ("global_destination", "global destination", "not in this block's shared memory"),
        ("ld_global_misaligned", "ld_global", "ld.global.nc: address is 8 bytes past a 16-byte boundary"),
    ],
)
def test_an_impossible_address_is_an_error_at_its_line(async_copies: Path, case: str, tag: str, words: str) -> None:
    outcome = run_case(async_copies, case)
    assert outcome.code == 1
    assert f"thread 0 at {line_of('async_copies', tag)}" in outcome.error
    assert words in outcome.error


def test_possible_addresses_are_no_error(async_copies: Path) -> None:
    assert run_case(async_copies, "placed")["out"][0] == 0x13121110 - 1  # the other array is unwritten: a char of -1
    assert run_case(async_copies, "ld_global")["out"].tobytes() == bytes(range(16, 32))
