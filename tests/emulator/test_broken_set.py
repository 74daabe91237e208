"""Each fault of the broken set is caught by the check meant for it, at its line; healthy and legal code passes all."""

import itertools
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from checked import BROKEN, CHECKS, COPIES, SCHEDULES, Verdict, compile_checked, find_tag, list_cases, run_checked

# Case: the check meant for it, and what it says; {TAG} stands for the line marked with it.
FAULTS: dict[str, tuple[str, list[str]]] = {
    "barrier_counts_one_warp": (
        "race",
        ["'tile_smem'", "{barrier_counts_one_warp write}", "{barrier_counts_one_warp read}", "no barrier orders"],
    ),
    "barrier_in_an_uneven_loop": (
        "plain",
        ["deadlock: threads 0-7 in __syncthreads (8 of 32) at {uneven barrier}", "__reduce_add_sync", "{uneven sum}"],
    ),
    "barrier_missed_by_lanes": (
        "plain",
        [
            "threads 0-39 in __syncthreads (40 of 64) at {barrier_missed_by_lanes barrier}",
            "threads 40-63 in __shfl_sync (mask 0xffffffff) at {barrier_missed_by_lanes shuffle}",
        ],
    ),
    "blocks_write_one_element": (
        "race",
        ["at {blocks_write_one_element}: race: writes 4 bytes at byte 124 of 'out', which block (", "wrote at"],
    ),
    "byte_as_bool": ("undefined", ["thread 2 at {byte_as_bool}: undefined", "load of 2", "bool"]),
    "cluster_barrier_missed_by_a_block": (
        "race",
        [
            "block (0,0,0): thread 0 at",
            "'part_smem', which block (1,0,0) thread",
            "{missed_by_a_block write}",
            "{missed_by_a_block read}",
            "no barrier.cluster orders the two blocks",
        ],
    ),
    "cluster_barrier_missed_by_a_warp": (
        "plain",
        [
            "block (0,0,0): deadlock: threads 0-63 in barrier.cluster.wait (96 of 128) at {missed_by_a_warp cluster}",
            "; block (1,0,0): threads 0-31 in barrier.cluster.wait (96 of 128) at {missed_by_a_warp cluster}",
            "; threads 32-63 in __syncthreads (32 of 64) at {missed_by_a_warp block}",
        ],
    ),
    "copy_past_the_end": (
        "memory",
        ["thread 24 at {copy_past_the_end}: cp.async reads 16 bytes", "up to 16 bytes past the end of 'in'"],
    ),
    "divergent_barrier": (
        "plain",
        ["divergent __syncthreads", "{divergent_barrier low}", "{divergent_barrier high}"],
    ),
    "divide_by_zero": ("undefined", ["thread 0 at {divide_by_zero}", "division by zero"]),
    "dynamic_row_too_few": (
        "memory",
        ["{dynamic_row_too_few}", "4 bytes at byte 512 of 'rows_smem', which has 512"],
    ),
    "exit_before_peer_reads": (
        "race",
        [
            "block (0,0,0): thread 0 at {exit peer reads}: race: reads 4 bytes at byte 0 of 'part_smem'",
            "of block (1,0,0), which may have exited; no barrier.cluster keeps it waiting",
        ],
    ),
    "float_past_int": ("undefined", ["thread 3 at {float_past_int}", "3e+09"]),
    "index_past_a_local_array": ("undefined", ["thread 4 at {index_past_a_local_array}", "index 4", "int [4]"]),
    "last_block_without_fence": (
        "race",
        [
            "at {last_block_without_fence read}: race: reads 4 bytes at byte 0 of 'partial', which block (0,0,0)",
            "wrote at {last_block_without_fence write}; no fence and atomic order the two blocks",
        ],
    ),
    "misaligned_ldmatrix": (
        "plain",
        ["{misaligned_ldmatrix}: ldmatrix: lane 1's shared address is 8 bytes past a 16-byte boundary"],
    ),
    "misaligned_rows": ("plain", ["{misaligned_rows}: cp.async: shared address is 4 bytes past a 16-byte boundary"]),
    "misaligned_source": ("plain", ["{misaligned_source}: cp.async: global address is 4 bytes past a 16-byte"]),
    "misaligned_vector": ("undefined", ["thread 0 at {misaligned_vector}: undefined", "4 bytes past a multiple of 16"]),
    "missing_barrier": (
        "race",
        [
            "of 'tile_smem', which thread",
            "{missing_barrier write}",
            "{missing_barrier read}; no barrier orders the two",
        ],
    ),
    "missing_barrier_after_wait": (
        "race",
        ["by cp.async", "'tile_smem'", "{missing_barrier_after_wait copy}", "{missing_barrier_after_wait read}"],
    ),
    "input_read_before_dependence_wait": (
        "race",
        [
            "at {input_read_before_dependence_wait}: race: reads 4 bytes at byte 0 of 'in', which the kernel ahead "
            "writes; this thread has not passed griddepcontrol.wait"
        ],
    ),
    "missing_barrier_before_reuse": (
        "race",
        [
            "of 'tile_smem', which thread",
            "{missing_barrier_before_reuse write}",
            "{missing_barrier_before_reuse read}",
            "no barrier orders the two",
        ],
    ),
    "missing_commit": (
        "race",
        ["{missing_commit read}: race", "wrote by cp.async at {missing_commit copy} and has not waited for"],
    ),
    "missing_syncwarp": ("race", ["{missing_syncwarp}: race", "'sum_smem'", "no __syncwarp or barrier orders the two"]),
    "missing_wait": (
        "race",
        ["{missing_wait read}: race: reads 4 bytes", "wrote by cp.async at {missing_wait copy} and has not waited for"],
    ),
    "null_pointer": ("memory", ["at {null_pointer}: reads 4 bytes outside of the kernel's memory: a null pointer"]),
    "offset_overflow": ("undefined", ["{offset_overflow}", "overflow: 40000 * 65536"]),
    "one_block_reads_before_dependence_wait": (
        "race",
        [
            "block (2,0,0): thread 0 at {one_block_reads_before_dependence_wait read}: race: reads 4 bytes",
            "wrote at {one_block_reads_before_dependence_wait write}; this thread has not passed griddepcontrol.wait",
        ],
    ),
    "page_past_the_cache": (
        "memory",
        ["at {page_past_the_cache}: reads 4 bytes", "past the end of 'k_pages', which has 256"],
    ),
    "peer_read_after_relaxed_arrive": (
        "race",
        ["{peer_read_after_relaxed_arrive write}", "{peer_read_after_relaxed_arrive read}", "no barrier.cluster"],
    ),
    "peer_read_without_barrier": (
        "race",
        [
            "'part_smem' of block (1,0,0)",
            "{peer_read_without_barrier write}",
            "{peer_read_without_barrier read}",
            "no barrier.cluster orders the two blocks",
        ],
    ),
    "peer_written_before_it_starts": (
        "race",
        [
            "at {peer_written_before_it_starts}: race: writes 4 bytes at byte 124 of 'mail_smem' of block (1,0,0)",
            "which may not have started; no barrier.cluster comes before",
        ],
    ),
    "plain_counter": ("race", ["{plain_counter}: race", "'count_smem'"]),
    "plain_flag": ("race", ["{plain_flag write}", "{plain_flag read}", "byte 0 of 'found_smem'"]),
    "read_before_dependence_wait": (
        "race",
        [
            "at {read_before_dependence_wait read}: race: reads 4 bytes",
            "of 'twice', which kernel first_doubles block 0 thread",
            "wrote at {read_before_dependence_wait write}; this thread has not passed griddepcontrol.wait",
        ],
    ),
    "read_before_the_start": ("memory", ["{read_before_the_start}: reads 4 bytes", "bytes before 'in'"]),
    "read_past_a_peers_array": (
        "memory",
        [
            "thread 31 at {read_past_a_peers_array}: reads 4 bytes outside of shared memory of block (0,0,0)",
            "at byte 128 of 'part_smem', which has 128",
        ],
    ),
    "read_past_a_shared_array": (
        "memory",
        ["thread 63 at {read_past_a_shared_array}: reads 4 bytes", "at byte 256 of 'tile_smem', which has 256"],
    ),
    "refill_too_early": ("race", ["by cp.async", "'ring_smem'", "{refill copy}", "{refill read}"]),
    "shift_by_the_width": ("undefined", ["thread 31 at {shift_by_the_width}: undefined: shift of unsigned int by 32"]),
    "shuffle_from_outside_the_mask": (
        "plain",
        ["{shuffle_from_outside_the_mask}: shuffle: lane 0 reads lane 9, which mask 0x000000ff does not name"],
    ),
    "store_under_a_copy": (
        "race",
        ["{store_under_a_copy store}: race: writes", "by cp.async at {store_under_a_copy copy} and has not waited for"],
    ),
    "syncwarp_without_partner": (
        "race",
        ["{syncwarp_without_partner write}", "{syncwarp_without_partner read}", "no __syncwarp or barrier orders"],
    ),
    "unwritten_partial": (
        "memory",
        ["combine: block (0,0,0): thread 0 at {unwritten_partial}: reads", "nothing has written byte 256 of 'partial'"],
    ),
    "unwritten_shared": (
        "memory",
        ["{unwritten_shared}: reads 4 bytes", "nothing has written byte 252 of 'tile_smem'"],
    ),
    "unwritten_shared_of_a_peer": (
        "memory",
        ["{unwritten_shared_of_a_peer}: reads", "nothing has written byte 124 of 'part_smem' of block (0,0,0)"],
    ),
    "wait_leaves_one_group": (
        "race",
        ["{wait_leaves_one_group read}: race", "wrote by cp.async at {wait_leaves_one_group copy} and has not waited"],
    ),
    "write_before_dependence_wait": (
        "race",
        [
            "at {write_before_dependence_wait write}: race: writes 4 bytes",
            "of 'state', which kernel first_reads block 0 thread",
            "read at {write_before_dependence_wait read}; this thread has not passed griddepcontrol.wait",
        ],
    ),
    "write_past_a_shared_array": (
        "memory",
        ["thread 63 at {write_past_a_shared_array}: writes 4 bytes", "at byte 256 of 'tile_smem', which has 256"],
    ),
    "write_to_an_input": ("memory", ["{write_to_an_input}: writes 4 bytes at byte 0 of 'in', an input"]),
    "wrong_barrier_count": (
        "plain",
        ["deadlock", "threads 32-63 in bar.sync 1 (64 of 96) at {wrong_barrier_count}"],
    ),
    "wrong_barrier_id": ("plain", ["deadlock", "threads 32-63 in bar.sync 2 (32 of 64) at {wrong_barrier_id}"]),
    "wrong_shuffle_mask": ("plain", ["{wrong_shuffle_mask}: __shfl_xor_sync: mask 0xffffffff names lane"]),
}

Programs = Callable[[str], Path]


@pytest.fixture(scope="session")
def program() -> Programs:
    built: dict[str, Path] = {}

    def find(check: str) -> Path:
        if check not in built:
            built[check] = compile_checked(BROKEN / "all.cu", check)
        return built[check]

    return find


def at_tags(words: str) -> str:
    return re.sub(r"\{([^}]+)\}", lambda tag: find_tag(tag[1]), words)


def run_healthy(program: Path, cases: list[str], settings: list[dict[str, object]]) -> dict[str, Verdict]:
    """What did not pass, by case and setting, of every case's healthy run under every setting."""

    def run(job: tuple[str, dict[str, object]]) -> tuple[str, Verdict]:
        case, setting = job
        return f"{case} {setting}", run_checked(program, case, "healthy", **setting)  # type: ignore[arg-type]

    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(run, itertools.product(cases, settings)))
    assert len(runs) == len(cases) * len(settings) > 0
    return {name: verdict for name, verdict in runs if verdict.end != "pass"}


def test_every_fault_has_a_check_that_is_meant_for_it(program: Programs) -> None:
    cases = list_cases(program("plain"))
    assert {name for name, kind in cases.items() if kind == "fault"} == set(FAULTS)
    assert sum(kind == "legal" for kind in cases.values()) >= 14


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_is_caught_by_its_check_at_its_line(program: Programs, case: str, schedule: str) -> None:
    check, words = FAULTS[case]
    verdict = run_checked(program(check), case, "broken", schedule=schedule)
    assert verdict.end == "fail", verdict
    if schedule != "ascending":  # which thread and byte come first is the schedule's choice; the lines are not
        words = re.findall(r"\{[^}]+\}", " ".join(words))
    for part in words:
        assert at_tags(part) in verdict.text


@pytest.mark.parametrize("copies", COPIES)
@pytest.mark.parametrize("check", ["race", "memory"])
def test_the_verdict_on_a_copy_does_not_depend_on_when_it_lands(program: Programs, check: str, copies: str) -> None:
    missed = [
        case
        for case, (meant, words) in FAULTS.items()
        if meant == check and "cp.async" in " ".join(words)
        if run_checked(program(check), case, "broken", copies=copies).end != "fail"
    ]
    assert missed == []


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    "case",
    ["read_before_dependence_wait", "one_block_reads_before_dependence_wait", "input_read_before_dependence_wait"],
)
def test_a_read_before_the_wait_finds_poison_in_a_plain_run(program: Programs, case: str, schedule: str) -> None:
    verdict = run_checked(program("plain"), case, "broken", schedule=schedule)
    # The poison is -1. What stayed the same is not hidden: the first word may be a 0 that was a 0 before.
    at = "64" if case.startswith("one_block") else "[01]"
    assert re.match(rf"FAIL: out\[{at}\] is 1, expected is ", verdict.text), verdict
    assert run_checked(program("plain"), case, "healthy", schedule=schedule).end == "pass"


@pytest.mark.parametrize("check", CHECKS)
def test_healthy_twins_pass_every_check(program: Programs, check: str) -> None:
    settings = [{"schedule": "ascending", "copies": "late"}, {"schedule": "random", "copies": "random", "seed": 7}]
    assert run_healthy(program(check), list(FAULTS), settings) == {}


@pytest.mark.parametrize("check", CHECKS)
def test_legal_code_passes_every_check_under_every_schedule(program: Programs, check: str) -> None:
    legal = [name for name, kind in list_cases(program(check)).items() if kind == "legal"]
    settings = [{"schedule": s, "copies": c} for s, c in itertools.product(SCHEDULES, COPIES)]
    assert run_healthy(program(check), legal, settings) == {}


@pytest.mark.full
@pytest.mark.parametrize("check", CHECKS)
def test_twenty_runs_in_a_row_report_nothing(program: Programs, check: str) -> None:
    settings = [{"schedule": "random", "copies": "random", "seed": seed} for seed in range(1, 21)]
    assert run_healthy(program(check), list(list_cases(program(check))), settings) == {}
