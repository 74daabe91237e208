"""Faults end in an error that names kernel, block, threads and source lines; their healthy twins do not."""

from pathlib import Path

import pytest
from programs import line_of, run_case

SCHEDULES = ("ascending", "descending", "random")


def at(tag: str) -> str:
    return line_of("faults", tag)


# Case: what the error says under every schedule; {TAG} stands for the line marked with it.
FAULTS = {
    "some_threads_miss_the_barrier": [
        "deadlock: threads 0-39 in __syncthreads (40 of 64) at {missing thread}; threads 40-63 exited"
    ],
    "waits_cross": [
        "deadlock",
        "threads 0-31 in bar.sync 1 (32 of 64) at {crossed 1}",
        "threads 32-63 in bar.sync 2 (32 of 64) at {crossed 2}",
    ],
    "barrier_waits_while_lanes_shuffle": [
        "deadlock",
        "threads 0-7, 32-39 in __syncthreads (16 of 64) at {barrier side}",
        "threads 8-31, 40-63 in __shfl_xor_sync (mask 0xffffffff) at {shuffle side}",
    ],
    "divergent_barrier": ["divergent __syncthreads", "{divergent a}", "{divergent b}"],
    "barrier_counts_differ": ["barrier 1:", "64 ", "96 "],
    "barrier_id_is_out_of_range": ["{id}", "barrier 16: ids are 0 to 15"],
    "exited_lane_in_mask": ["{exited}", "__shfl_xor_sync: mask 0xffffffff names lane", "31 of warp 0, which exited"],
    "exited_lane_in_later_mask": ["{exited before}", "0xffffffff names lane", "5 of warp 0, which exited"],
    "own_lane_not_in_mask": ["{own lane}", "mask 0x0000ffff does not name the calling lane"],
    "shuffle_reads_outside_mask": ["{source}", "reads lane 9, which mask 0x000000ff does not name"],
    "lanes_run_different_operations": ["lanes of one collective run different operations", "__shfl_xor_sync"],
    "mma_in_divergent_code": ["divergent mma.m16n8k16.bf16", "{divergent mma}"],
    "ldmatrix_misaligned": ["{misaligned row}", "ldmatrix: lane 1's shared address is 8 bytes past a 16-byte boundary"],
    "ldmatrix_past_the_end": ["{past the end}", "lane 7's", "16 bytes at byte 112 of 'tile_smem', which has 112"],
    "partial_warp_with_full_mask": ["{partial warp}", "lanes 16-31 of warp 1, which the block does not have"],
    "write_past_shared_array": ["write outside shared array 'first_smem'"],
    "too_much_static_shared": ["{static limit}", "'more_smem' takes 49156 bytes, the limit is 49152"],
    "failed_assertion": ["thread 63 at {assertion}: assertion failed: threadIdx.x < 63"],
    "trap_in_one_thread": ["thread 17 at {trap}: trap"],
    "helper_sum_in_divergent_code": ["{helper}", "warp_sum: mask 0xffffffff"],
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_is_told_with_its_threads_and_line(faults: Path, case: str, schedule: str) -> None:
    outcome = run_case(faults, case, schedule=schedule)
    assert outcome.code == 1
    assert outcome.error.startswith("kernel: block (0,0,0): ")
    for words in FAULTS[case]:
        for tag in [part.split("}")[0] for part in words.split("{")[1:]]:
            words = words.replace("{" + tag + "}", at(tag))
        assert words in outcome.error


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    "case",
    [
        "barrier_by_warps",
        "exited_lanes_left_out_of_mask",
        "just_enough_static_shared",
        "just_enough_dynamic_shared",
        "spins_until_another_thread_writes",
    ],
)
def test_a_healthy_twin_is_left_alone(faults: Path, case: str, schedule: str) -> None:
    outcome = run_case(faults, case, schedule=schedule)
    assert (outcome.code, outcome.error) == (0, "")


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("too_many_threads", "kernel: block (1025,1,1) is not possible"),
        ("no_blocks", "kernel: grid (0,1,1) is not possible"),
        ("too_much_dynamic_shared", "kernel: 232449 bytes of dynamic shared memory, the limit is 232448"),
        ("static_and_dynamic_together_too_much", "takes 232464 bytes, 183312 of them dynamic; the limit is 232448"),
    ],
)
def test_a_launch_that_a_gpu_would_refuse_is_refused(faults: Path, case: str, words: str) -> None:
    outcome = run_case(faults, case)
    assert outcome.code == 1
    assert words in outcome.error


def test_a_loop_that_nobody_ends_is_ended(faults: Path) -> None:
    outcome = run_case(faults, "spins_for_ever")
    assert outcome.code == 1
    assert "threads spin for ever" in outcome.error


def test_the_error_names_a_template_with_all_its_arguments(faults: Path) -> None:
    outcome = run_case(faults, "name_of_a_template")
    assert outcome.kernel == "templated<bf16, 8>"
    assert outcome.error.startswith("templated<bf16, 8>: block (0,0,0): deadlock")
    assert outcome.error.startswith(outcome.message)
