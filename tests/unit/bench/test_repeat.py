"""The command that repeats one row."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from sparkctl.bench.ab import Ab
from sparkctl.bench.repeat import repeat_command
from sparkctl.bench.results import Run
from sparkctl.bench.saved import load_run

RESULTS = Path(__file__).parents[3] / "benchmarks/results/h200"
TAIL = "--l2 cold --peers none --budget 1 --profile release"
REST = f"--dtype bf16 {TAIL}"


@pytest.fixture(scope="module")
def run() -> Run:
    """A row of batch 8 × 16k in pages of 64 comes last."""
    return replace(load_run(RESULTS / "paged.json"), ab=None)


def repeat(run: Run, command: str, **changes: object) -> str | None:
    return repeat_command(replace(run.rows[-1], **changes), replace(run, command=command))  # type: ignore[arg-type]


CASE = "--seq 16k --batch 8 --heads 32/8 --head-dim 128"


def test_lists_become_the_rows_own_case_and_all_else_stays(run: Run) -> None:
    whole = f"sparkctl bench --seq 4k,16k --batch 1,8 --heads 32/8,16/8 --head-dim 64,128 --page-size none,64 {REST}"
    assert repeat(run, f"{whole} --causal --qo-len 2 --set FAPIPE=1 --set fast_math=0") == (
        f"sparkctl bench {CASE} --dtype bf16 --page-size 64 {TAIL} --causal --qo-len 2 --set FAPIPE=1 --set fast_math=0"
    )
    assert repeat(run, whole, case=replace(run.rows[0].case, page_size=None)) == (
        f"sparkctl bench --seq 4k --batch 1 --heads 32/8 --head-dim 128 --dtype bf16 --page-size none {TAIL}"
    )


def test_pages_that_nobody_asked_for_are_in_the_rows_command(run: Run) -> None:
    assert repeat(run, f"sparkctl bench attn_paged_decode_split_kv_mma --seq 4k --batch 1 {REST}") == (
        f"sparkctl bench {run.rows[-1].variant} {CASE} --dtype bf16 --page-size 64 {TAIL}"
    )


def test_a_named_kernel_or_axis_becomes_the_rows_variant(run: Run) -> None:
    for asked in ("'attn_*' --seq 4k", "--seq 4k --where stages=1,2 --where block_kv=64", "--seq 4k --suite decode"):
        words = shlex.split(repeat(run, f"sparkctl bench {asked} --l2 cold") or "")
        assert words[2] == run.rows[-1].variant
        assert not {"--where", "--suite"} & set(words)
        assert words[words.index("--l2") + 1] == "cold"


def test_a_row_of_arms_repeats_the_whole_comparison_on_its_case(run: Run) -> None:
    arms = replace(run, ab=Ab("stages", ("1", "2")))
    command = "sparkctl bench k_one k_two --seq 4k --where block_kv=64 --ab stages=1,2"
    assert repeat(arms, command, kernel="k_two", case=replace(run.rows[-1].case, page_size=None)) == (
        f"sparkctl bench k_two {CASE} --dtype bf16 --where block_kv=64 --ab stages=1,2"
    )
    named = repeat(arms, "sparkctl bench k_one.bf16.d128 --ab num_splits=1,2", variant="k_one.bf16.d128")
    assert named is not None
    assert named.startswith(f"sparkctl bench k_one.bf16.d128 {CASE} ")


def test_a_run_of_another_program_has_no_command_for_one_row(run: Run) -> None:
    assert repeat(run, "python benchmarks/splits_rule.py out.json --budget 0.5") is None


def test_each_row_of_the_committed_runs_has_a_command_of_its_own() -> None:
    for name in ("decode", "decode_dims", "paged"):
        run = load_run(RESULTS / f"{name}.json")
        commands = [repeat_command(row, run) for row in run.rows]
        assert len(set(commands)) == len(run.rows)
