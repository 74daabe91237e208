"""The few cases that `sparkctl watch` runs, and the time that one of them may take."""

from pathlib import Path

from sparkctl.testing.handful import choose_handful
from sparkctl.testing.model import Case, DecodeCase, StreamCase
from sparkctl.testing.standalone import StandaloneTarget, run_files
from sparkctl.testing.suite import Outcome


def test_few_cases_are_all_taken() -> None:
    cases = [StreamCase(16, 1), StreamCase(32, 1)]
    assert choose_handful(cases, 2) == tuple(cases)


def test_a_handful_spreads_over_the_cheaper_half() -> None:
    cases = [DecodeCase((length,)) for length in (1, 4096, 2, 8192, 3, 16384, 4, 32768, 5, 65536)]
    assert [case.kv_lens[0] for case in choose_handful(cases, 3)] == [1, 2, 4]


def test_there_are_as_many_as_asked_for_where_there_are_enough() -> None:
    cases = [StreamCase(16 * number, 1) for number in range(1, 33)]
    for most in (1, 5, 8, 31):
        chosen = choose_handful(cases, most)
        assert len(set(chosen)) == len(chosen) == most


def outcomes_of(tmp_path: Path, script: str, limit_s: float) -> list[tuple[str, Outcome]]:
    """What the three cases come to in a runner that is a shell script."""
    runner = tmp_path / "runner"
    runner.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    runner.chmod(0o755)
    cases: list[Case] = [StreamCase(16, 1), StreamCase(32, 1), StreamCase(48, 1)]
    files = {tmp_path / f"{number}.case": (case, 1) for number, case in enumerate(cases)}
    found: list[tuple[str, Outcome]] = []
    target = StandaloneTarget(None, runner, limit_s=limit_s)  # type: ignore[arg-type]  # nothing is recorded
    run_files(target, files, lambda case, outcome: found.append((case.id, outcome)))
    return found


def test_a_case_that_never_ends_is_stopped_and_those_behind_it_do_not_run(tmp_path: Path) -> None:
    found = outcomes_of(tmp_path, f"echo 'pass 0.25 0 {StreamCase(16, 1).id}'; sleep 50", 0.3)
    assert [case for case, _ in found] == [StreamCase(size, 1).id for size in (16, 32, 48)]
    first, slow, rest = (outcome for _, outcome in found)
    assert (first.worst, first.failure) == (0.25, None)
    assert slow.failure == "still running after 0.3 s, and stopped"
    assert rest.skip == f"not run: {StreamCase(32, 1).id} never ended"


def test_the_limit_is_for_one_case_and_not_for_all(tmp_path: Path) -> None:
    lines = "; ".join(f"sleep 0.3; echo 'pass 0.5 0 {StreamCase(size, 1).id}'" for size in (16, 32, 48))
    assert [outcome.worst for _, outcome in outcomes_of(tmp_path, lines, 0.8)] == [0.5, 0.5, 0.5]
