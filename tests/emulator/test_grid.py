"""Grids over several workers, schedules, shared memory's first content and the settings."""

from pathlib import Path

import numpy as np
import pytest
from programs import compile_program, run_case

SCHEDULES = ("ascending", "descending", "random")


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_thread_of_every_block_runs_once_with_its_indices(grid: Path, schedule: str, workers: int) -> None:
    got = run_case(grid, "indices", schedule=schedule, workers=workers)["out"]
    np.testing.assert_array_equal(got, [block << 16 | thread for block in range(24) for thread in range(30)])


def test_a_block_has_up_to_1024_threads(grid: Path) -> None:
    got = run_case(grid, "most_threads")["out"]
    np.testing.assert_array_equal(got, [block << 16 | thread for block in range(3) for thread in range(1024)])


@pytest.mark.parametrize("workers", [1, 2])
def test_shared_memory_is_nan_at_the_start_of_every_block(grid: Path, workers: int) -> None:
    got = run_case(grid, "fill", workers=workers).view("out", "<f4")
    assert np.isnan(got).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("workers", [1, 4])
def test_atomics_of_all_blocks_add_up(grid: Path, schedule: str, workers: int) -> None:
    outcome = run_case(grid, "atomics", schedule=schedule, workers=workers)
    assert outcome.code == 0, outcome.error
    n = 40 * 64
    xor = int(np.bitwise_xor.reduce(np.arange(n)))
    assert outcome.view("ints", "<i4").tolist() == [n * (n - 1) // 2, -n, -(n - 1), n - 1, 0, n, n, 100 * n]
    assert outcome["words"].tolist() == [0xFFFFFFFF, 0xFFFF0000, xor, n % 7]
    assert outcome["wide"][0] == n << 33
    assert outcome.view("sum", "<f4")[0] == n
    assert outcome.view("wide_sum", "<f8")[0] == n / 2


def test_schedules_and_workers_change_no_bit_of_a_healthy_reduction(grid: Path) -> None:
    runs = {
        run_case(grid, "reduce", schedule=schedule, workers=workers, seed=seed).values
        for schedule in SCHEDULES
        for workers in (1, 3)
        for seed in (1, 2)
    }
    assert len(runs) == 1


def test_schedules_change_what_a_race_gives(grid: Path) -> None:
    ascending, descending, first, second = (
        run_case(grid, "race", schedule=schedule, seed=seed)["out"]
        for schedule, seed in [("ascending", 1), ("descending", 1), ("random", 1), ("random", 2)]
    )
    assert set(ascending) == {63}
    assert set(descending) == {0}
    assert first[0] != second[0]


def test_schedules_order_threads_and_blocks_as_they_say(grid: Path) -> None:
    everybody = np.arange(640)
    np.testing.assert_array_equal(run_case(grid, "order", workers=1)["order"], everybody)
    descending = run_case(grid, "order", schedule="descending", workers=1)["order"]
    np.testing.assert_array_equal(descending, everybody[::-1])
    shuffled = [run_case(grid, "order", schedule="random", workers=1, seed=seed)["order"] for seed in (1, 1, 2)]
    np.testing.assert_array_equal(shuffled[0], shuffled[1])
    assert (shuffled[0] != shuffled[2]).any()
    for order in shuffled:
        np.testing.assert_array_equal(np.sort(order), everybody)
        assert (np.diff(order[::64] // 64) != 1).any()


def test_settings_made_in_code_hold(grid: Path) -> None:
    got = run_case(grid, "configured_in_code")["order"]
    np.testing.assert_array_equal(got, np.arange(640)[::-1])


def test_a_smaller_limit_of_shared_memory_holds(grid: Path) -> None:
    outcome = run_case(grid, "smaller_shared_limit")
    assert outcome.error == "fill_kernel: 102400 bytes of dynamic shared memory, the limit is 101376"


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("case", ["failing_blocks", "failing_blocks_first_slow", "failing_blocks_second_slow"])
def test_of_several_failing_blocks_the_first_is_told(grid: Path, case: str, workers: int) -> None:
    outcome = run_case(grid, case, workers=workers)
    assert outcome.error.startswith("failing_blocks_kernel: block (37,0,0): thread 0 at grid.cu:")


def test_launches_from_several_host_threads_do_not_meet(grid: Path) -> None:
    outcome = run_case(grid, "concurrent_launches")
    assert outcome.code == 0, outcome.error
    out = outcome["out"].reshape(4, 50)
    assert (out == out[0]).all()
    assert outcome.launches == 80


def test_the_last_kernel_and_the_count_prove_what_ran(grid: Path) -> None:
    outcome = run_case(grid, "order")
    assert (outcome.kernel, outcome.launches) == ("order_kernel", 1)


@pytest.mark.parametrize("case", ["reduce", "atomics", "indices", "failing_blocks"])
def test_fibers_by_ucontext_give_the_same(grid: Path, case: str) -> None:
    other = compile_program("grid", ("-DSPARK_EMULATOR_UCONTEXT=1",))
    ours, theirs = run_case(grid, case), run_case(other, case)
    assert (ours.error, ours.values) == (theirs.error, theirs.values)
