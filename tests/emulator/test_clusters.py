"""Thread block clusters: indices, the cluster's barrier, the shared memory of other blocks, and faults with them."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from programs import compile_program, line_of, run_case

SCHEDULES = ("ascending", "descending", "random")


def indices(grid: tuple[int, int, int], cluster: tuple[int, int, int]) -> list[list[int]]:
    """Of every block, x first: rank and size of its cluster, position in it and its shape."""
    rows = []
    for z, y, x in itertools.product(*(range(n) for n in reversed(grid))):
        at = [i % n for i, n in zip((x, y, z), cluster, strict=True)]
        rank = at[0] + cluster[0] * (at[1] + cluster[1] * at[2])
        rows.append([rank, cluster[0] * cluster[1] * cluster[2], *at, *cluster])
    return rows


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("case", "grid", "cluster"),
    [
        ("indices", (4, 6, 2), (2, 2, 2)),
        ("indices_of_a_row", (6, 2, 1), (3, 1, 1)),
        ("indices_without_a_cluster", (3, 1, 1), (1, 1, 1)),
    ],
)
def test_a_block_knows_its_place_in_the_cluster(
    clusters: Path, case: str, grid: tuple[int, int, int], cluster: tuple[int, int, int], schedule: str
) -> None:
    outcome = run_case(clusters, case, schedule=schedule)
    assert outcome.code == 0, outcome.error
    assert outcome["out"].reshape(-1, 8).tolist() == indices(grid, cluster)


@pytest.mark.parametrize("case", ["reduce", "ring", "rounds", "early_exit", "spin", "barrier_without_a_cluster"])
def test_schedules_and_workers_change_no_bit(clusters: Path, case: str) -> None:
    outcomes = [
        run_case(clusters, case, schedule=schedule, workers=workers, seed=seed)
        for schedule in SCHEDULES
        for workers in (1, 3)
        for seed in ((1, 2, 3) if schedule == "random" else (1,))
    ]
    assert {(outcome.code, outcome.error) for outcome in outcomes} == {(0, "")}
    assert len({outcome.values for outcome in outcomes}) == 1


def test_stores_and_atomics_reach_the_block_that_they_name(clusters: Path) -> None:
    out = run_case(clusters, "ring")["out"]
    threads = np.arange(64)
    sender = [2, 0, 1, 5, 3, 4]
    np.testing.assert_array_equal(out[: 6 * 64].reshape(6, 64), [(s << 16 | threads) + threads**2 for s in sender])
    assert out[6 * 64 :].tolist() == [3 * 64 * 65 // 2] * 2


def test_a_barrier_waits_for_the_threads_that_have_not_exited(clusters: Path) -> None:
    out = run_case(clusters, "early_exit")["out"].reshape(4, 32)
    np.testing.assert_array_equal(out, np.repeat([[2], [1], [4], [3]], 32, axis=1))


def test_a_block_that_spins_lets_the_others_run(clusters: Path) -> None:
    for schedule in SCHEDULES:
        assert run_case(clusters, "spin", schedule=schedule)["out"].tolist() == [11, 12, 13, 0] * 2


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("rank_out_of_range", "at {rank}: mapa: rank 2, the cluster has 2 blocks"),
        ("not_shared", "at {not shared}: mapa: shared address: not in this block's shared memory"),
        ("arrives_twice", "at {twice}: barrier.cluster.arrive: this thread has arrived before and not waited"),
        ("waits_without_arriving", "at {wait}: barrier.cluster.wait: this thread has not arrived"),
        ("past_shared_of_a_peer", "block (1,0,0): write outside shared array 'value_smem'"),
        ("write_after_exit", "block (1,0,0): another block of the cluster wrote byte 8 of 'value_smem' after this one"),
    ],
)
def test_a_fault_is_told(clusters: Path, case: str, words: str, schedule: str) -> None:
    outcome = run_case(clusters, case, schedule=schedule)
    assert outcome.code == 1
    for tag in [part.split("}")[0] for part in words.split("{")[1:]]:
        words = words.replace("{" + tag + "}", line_of("clusters", tag))
    assert words in outcome.error


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("too_many_blocks", "kernel: cluster (16,1,1) has 16 blocks, accepted is 1 to 8"),
        ("no_blocks", "kernel: cluster (2,0,1) has 0 blocks, accepted is 1 to 8"),
        ("no_multiple", "kernel: grid (4,3,1) is no multiple of cluster (2,2,1)"),
    ],
)
def test_a_launch_that_a_gpu_would_refuse_is_refused(clusters: Path, case: str, words: str) -> None:
    assert run_case(clusters, case).error == words


@pytest.mark.full  # a build of its own
@pytest.mark.parametrize("case", ["rounds", "spin"])
def test_fibers_by_ucontext_give_the_same(clusters: Path, case: str) -> None:
    other = compile_program("clusters", ("-DSPARK_EMULATOR_UCONTEXT=1",))
    assert run_case(other, case).values == run_case(clusters, case).values
