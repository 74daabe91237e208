"""Failed edges as an error: each told once."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkctl.build.failures import raise_failures, save_failures
from sparkctl.build.model import BuildResult, EdgeResult, PlanResult, Status
from sparkctl.errors import WorkFailed
from sparkctl.toolchain import CompilerChoice

COMPILER = CompilerChoice("nvcc 13.0.88", Path("/cuda/bin/nvcc"), "PATH", "", ())


def failed(name: str, output: str, code: int = 2) -> EdgeResult:
    return EdgeResult(name, "failed", command=f"nvcc -o obj/{name}.o", output=output, exit_code=code)


def plan(*edges: EdgeResult, label: str = "cuda-sm_90-release", root: Path = Path("/p/build")) -> PlanResult:
    return PlanResult(label, root / label, COMPILER, root / label / "lib.so", None, edges, linked=False, wall_s=1.0)


def message(*plans: PlanResult) -> str:
    with pytest.raises(WorkFailed) as caught:
        raise_failures(BuildResult(plans, 1, "-j"))
    return caught.value.message


def test_the_same_error_in_many_variants_is_shown_once_with_their_names() -> None:
    edges = [
        failed(
            f"combine.bf16.d{size}",
            f"combine.cu(7): error: no x\n  instantiation with D={size} in combine.bf16.d{size}",
        )
        for size in range(32, 32 * 13, 32)
    ]
    assert message(plan(*edges)) == (
        "combine.bf16.d32 failed (cuda-sm_90-release), exit code 2\n"
        "nvcc -o obj/combine.bf16.d32.o\n"
        "combine.cu(7): error: no x\n"
        "  instantiation with D=32 in combine.bf16.d32\n"
        "the same in 11 more variants: combine.bf16.d64, combine.bf16.d96, combine.bf16.d128, combine.bf16.d160"
        " and 7 more"
    )


def test_names_of_variants_libraries_and_temporary_files_make_no_other_error() -> None:
    def output(name: str, label: str, number: str) -> str:
        return f"{label}/{name}: error in /tmp/tmpxft_{number}_a.cpp"

    first = plan(failed("a.d1", output("a.d1", "sm_80-x", "00a1")), label="sm_80-x")
    second = plan(
        failed("a.d1", output("a.d1", "sm_90-x", "00b2")), failed("b", output("b", "sm_90-x", "0")), label="sm_90-x"
    )
    assert message(first, second).endswith("the same in 2 more variants: a.d1 (sm_90-x), b (sm_90-x)")


def test_three_errors_are_shown_in_full_and_the_others_are_counted() -> None:
    edges = [failed(f"k{number}", f"k.cu({number}): error: {number}") for number in range(5)]
    text = message(plan(*edges))
    assert [line for line in text.splitlines() if "error: " in line] == [f"k.cu({n}): error: {n}" for n in range(3)]
    assert text.endswith("\n\nand 2 other errors in k3, k4")


def test_other_exit_codes_are_other_errors_and_signals_are_named() -> None:
    text = message(plan(failed("a", "", code=1), failed("b", "", code=137)))
    assert "a failed (cuda-sm_90-release), exit code 1" in text
    assert "b failed (cuda-sm_90-release), killed by signal 9 (out of memory?)" in text


def test_all_failures_are_kept_in_a_file_until_there_are_none(tmp_path: Path) -> None:
    edges = [failed(f"k{number}", "k.cu(1): error: same") for number in range(5)]
    save_failures(tmp_path, [*edges, EdgeResult("good", "built")])
    log = tmp_path / "failures.log"
    assert log.read_text().count("k.cu(1): error: same") == 5
    assert "k4 failed, exit code 2\nnvcc -o obj/k4.o\n" in log.read_text()
    assert "good" not in log.read_text()
    save_failures(tmp_path, [EdgeResult("good", "built")])
    assert not log.exists()


def test_the_hint_says_where_all_of_them_are() -> None:
    with pytest.raises(WorkFailed) as caught:
        raise_failures(BuildResult((plan(failed("a", "error: x"), EdgeResult("b", "built")),), 1, "-j"))
    assert caught.value.hint == "the rest is built; every failure in full: /p/build/cuda-sm_90-release/failures.log"


def test_a_build_without_failures_raises_nothing() -> None:
    raise_failures(BuildResult((plan(EdgeResult("a", "built")),), 1, "-j"))


def hint(*plans: PlanResult) -> str | None:
    with pytest.raises(WorkFailed) as caught:
        raise_failures(BuildResult(plans, 1, "-j"))
    return caught.value.hint


@pytest.mark.parametrize("status", ["built", "cached", "up to date"])
def test_the_hint_speaks_of_a_rest_only_if_there_is_one(status: Status) -> None:
    log = "every failure in full: /p/build/cuda-sm_90-release/failures.log"
    assert hint(plan(failed("a", "x"), EdgeResult("b", status))) == f"the rest is built; {log}"
    assert hint(plan(failed("a", "x")), plan(EdgeResult("b", status), label="other")) == f"the rest is built; {log}"
    assert hint(plan(failed("a", "x"), failed("b", "y"), EdgeResult("c", "not run"))) == f"nothing was built; {log}"


def test_a_full_disk_is_to_be_freed() -> None:
    edge = failed("a", "cc1plus: fatal error: when writing output to a.ii: No space left on device")
    assert (hint(plan(edge)) or "").startswith("free some space for /p/build; nothing was built; ")
