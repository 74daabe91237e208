"""A run held against a saved one that was taken at another time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sparkctl.bench.against import hold_against, judge_apart
from sparkctl.bench.results import Row, Run, Sample, Series
from sparkctl.bench.saved import load_run
from sparkctl.bench.statistics import Interval
from sparkctl.render.bench_against import baseline_notes

RESULTS = Path(__file__).parents[3] / "benchmarks/results/h200"


@pytest.fixture(scope="module")
def base() -> Run:
    return load_run(RESULTS / "decode.json")


def slower(row: Row, factor: float, spread: float = 0.0) -> Row:
    middle = row.series.median_us * factor
    samples = tuple(Sample(middle * (1 + spread * (i % 3 - 1))) for i in range(21))
    return replace(row, series=Series(samples, 10, "precise"))


@pytest.mark.parametrize(
    ("factor", "spread", "verdict"),
    [(1.0, 0, "same"), (0.9, 0, "faster"), (1.1, 0, "slower"), (1.006, 0, "same"), (1.0, 0.1, "unsure")],
)
def test_the_verdict_is_by_intervals(base: Run, factor: float, spread: float, verdict: str) -> None:
    now = replace(base, rows=tuple(slower(row, factor, spread) for row in base.rows))
    found = hold_against(now, base, "decode")
    assert [one.verdict for one in found.rows] == [verdict] * 4
    assert found.rows[0].ratio == pytest.approx(1 / factor)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.011, 1.3, "faster"),
        (1.009, 1.3, "unsure"),
        (1.006, 1.019, "same"),
        (0.985, 1.015, "same"),
        (0.7, 0.99, "slower"),
        (0.97, 1.01, "unsure"),
    ],
)
def test_runs_apart_need_more_than_one_percent(low: float, high: float, verdict: str) -> None:
    assert judge_apart(Interval(low, high)) == verdict


def test_two_committed_runs_of_equal_kernels_are_the_same(base: Run) -> None:
    found = hold_against(base, load_run(RESULTS / "paged.json"), "paged")
    assert [one.verdict for one in found.rows] == ["same"] * 4
    assert found.left_out == 12


def test_a_changed_choice_of_variant_is_compared_and_said(base: Run) -> None:
    rows = tuple(replace(row, variant="k_other.bf16.d128") for row in base.rows)
    found = hold_against(replace(base, rows=rows), base, "decode")
    assert [one.verdict for one in found.rows] == ["same"] * 4
    assert (
        sum("k_other.bf16.d128 now, attn_decode_split_kv_mma.bf16.d128 in the" in n for n in baseline_notes(found)) == 4
    )


def test_two_variants_on_one_case_are_not_mixed_up(base: Run) -> None:
    rows = (base.rows[0], replace(base.rows[0], variant="k_other.bf16.d128"))
    found = hold_against(replace(base, rows=rows), base, "decode")
    assert [one.base is not None for one in found.rows] == [True, False]
    assert found.rows[1].verdict is None
    assert any(note == f"not in the baseline: {rows[1].case.label}" for note in baseline_notes(found))


def test_another_gpu_gives_no_verdict_and_another_driver_is_said(base: Run) -> None:
    other = replace(base, environment=replace(base.environment, gpu="NVIDIA B200", driver="570.10"))
    found = hold_against(base, other, "decode")
    assert {one.verdict for one in found.rows} == {None}
    assert found.differences == (
        "GPU NVIDIA H200 here, NVIDIA B200 there",
        "driver 580.159.04 here, 570.10 there",
    )
    notes = baseline_notes(found)
    assert "The GPUs differ: there are no verdicts." in notes
    assert "differs: driver 580.159.04 here, 570.10 there" in notes
    driver = hold_against(base, replace(base, environment=replace(base.environment, driver="570.10")), "decode")
    assert driver.comparable
    assert [one.verdict for one in driver.rows] == ["same"] * 4


def test_it_says_that_the_runs_were_not_interleaved(base: Run) -> None:
    assert any("Not interleaved" in note for note in baseline_notes(hold_against(base, base, "decode")))
