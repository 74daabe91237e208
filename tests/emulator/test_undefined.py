"""Undefined behaviour: each kind that g++ reports ends the launch at its line, and its healthy twin runs."""

from pathlib import Path

import numpy as np
import pytest
from programs import compile_program, line_of, run_case

INT = "does not fit int"
# case: the tag of its line, what is said
FAULTS = {
    "add": ("add", f"signed integer overflow: 2147483647 + 1 {INT}"),
    "subtract": ("subtract", f"signed integer overflow: -2147483648 - 1 {INT}"),
    "multiply": ("multiply", f"signed integer overflow: 70000 * 32768 {INT}"),
    "multiply_long": ("multiply_long", "signed integer overflow: 9223372036854775807 * 2 does not fit long long int"),
    "multiply_128": (
        "multiply_128",
        "signed integer overflow: 2 * 170141183460469231713240559642174554112 does not fit __int128",
    ),
    "negate": ("negate", f"signed integer overflow: -(-2147483648) {INT}"),
    "divide": ("divide", "division by zero: 7 / 0"),
    "divide_too_far": ("divide", f"signed integer overflow: -2147483648 / -1 {INT}"),
    "shift": ("shift", "shift of unsigned int by 32, accepted is 0 to 31"),
    "shift_by_less_than_none": ("shift", "shift of unsigned int by -1, accepted is 0 to 31"),
    "shift_left": ("shift_left", f"left shift: 5 << 30 {INT}"),
    "shift_of_a_negative": ("shift_left", "left shift of -3, which is negative"),
    "index": ("index", "index 4 outside of int [4]"),
    "index_before": ("index", "index -1 outside of int [4]"),
    "pointer": ("pointer", "member of const struct int4 through a null pointer"),
    "pointer_misaligned": ("pointer", "member of const struct int4 at an address 4 bytes past a multiple of 16"),
    "store": ("store", "store to long long int at an address 4 bytes past a multiple of 8"),
    "truth": ("truth", "load of 7, which is no value of bool"),
    "convert": ("convert", f"3e+09 {INT}"),
    "unreachable": ("unreachable", "__builtin_unreachable() is reached"),
    "no_return": ("no_return", "a function ends without the value that it returns"),
    "array_of_none": ("array_of_none", "an array of -2 elements, accepted is at least 1"),
    "null_argument": ("null_argument", "argument 1 is null, which its function does not accept"),
    "null_result": ("null_result", "a function returns null, which it declares never to do"),
    "lowest_bit": ("lowest_bit", "__builtin_ctz of 0, which has no last bit"),
}
TWINS = sorted(
    {tag for tag, _ in FAULTS.values()} | {"arithmetic", "one_thread", "virtual_call", "host_before_its_launch"}
)
HOST_FAULT = f"undefined: signed integer overflow: 80000 * 40000 {INT}"


@pytest.fixture(scope="session")
def undefined() -> Path:
    flags = ("-fsanitize=undefined,float-cast-overflow",)
    return compile_program("undefined", ("-DSPARK_SANITIZE_UNDEFINED=1",), flags)


@pytest.mark.parametrize("case", FAULTS)
def test_what_is_undefined_ends_the_launch_at_its_line(undefined: Path, case: str) -> None:
    tag, words = FAULTS[case]
    outcome = run_case(undefined, case)
    assert outcome.code == 1
    line = line_of("undefined", tag)
    assert outcome.error == f"kernel: block (0,0,0): thread 0 at {line}: undefined: {words}"


@pytest.mark.parametrize("twin", TWINS)
def test_a_healthy_twin_runs(undefined: Path, twin: str) -> None:
    outcome = run_case(undefined, f"{twin}_twin")
    assert (outcome.code, outcome.error) == (0, "")


def test_a_pointer_that_wraps_around_is_told_with_both_ends(undefined: Path) -> None:
    outcome = run_case(undefined, "arithmetic")
    assert f"thread 0 at {line_of('undefined', 'arithmetic')}: undefined: pointer 0x" in outcome.error
    assert "with an offset wraps around to 0x8" in outcome.error


@pytest.mark.parametrize("schedule", ["ascending", "descending", "random"])
def test_the_one_thread_that_goes_wrong_is_named(undefined: Path, schedule: str) -> None:
    outcome = run_case(undefined, "one_thread", schedule=schedule)
    assert f"block (1,0,0): thread 5 at {line_of('undefined', 'one_thread')}" in outcome.error


def test_what_a_launcher_does_fails_its_launch(undefined: Path) -> None:
    outcome = run_case(undefined, "host_before_its_launch")
    assert outcome.code == 1
    assert outcome.error == f"kernel: host code at {line_of('undefined', 'host')}: {HOST_FAULT}"


def test_it_fails_one_launch_only(undefined: Path) -> None:
    outcome = run_case(undefined, "host_told_once")
    assert (outcome.code, outcome["first"].tolist()) == (0, [1])


def test_what_a_launcher_does_after_its_launch_can_be_asked_for_once(undefined: Path) -> None:
    outcome = run_case(undefined, "host_after_its_launch")
    assert (outcome.code, outcome["failed"][0], outcome["again"][0]) == (0, 1, 0)
    assert outcome.error == f"host code at {line_of('undefined', 'host')}: {HOST_FAULT}"


def test_other_builds_report_nothing() -> None:
    outcome = run_case(compile_program("undefined"), "host_after_its_launch")
    assert (outcome.code, outcome["failed"][0]) == (0, 0)
    np.testing.assert_array_equal(outcome["out"], [2])
