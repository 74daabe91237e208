"""The parser of ncu's table, on one written by hand and damaged ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkctl.errors import WorkFailed
from sparkctl.resources.counters import DRAM_PERCENT, parse_counters

RAW = (Path(__file__).parents[2] / "data" / "ncu" / "raw.csv").read_text(encoding="utf-8")


def test_every_launch_is_read_with_units_and_without_thousands_separators() -> None:
    decode, combine = parse_counters(RAW)
    assert decode.kernel.startswith("void spark::attn_decode_split_kv_mma_kernel<")
    assert (decode.grid, decode.block) == ("(8, 1, 16)", "(128, 1, 1)")
    assert (decode.duration_ns, decode.dram_read_bytes, decode.dram_written_bytes) == (12352, 16793600, 262144)
    assert decode.value(DRAM_PERCENT) == 41.25
    assert combine.duration_ns == 3104


@pytest.mark.parametrize(("unit", "ns"), [("nsecond", 12352), ("us", 12352e3), ("usecond", 12352e3), ("ms", 12352e6)])
def test_other_units_of_time_are_converted(unit: str, ns: float) -> None:
    assert parse_counters(RAW.replace('"ns"', f'"{unit}"'))[0].duration_ns == ns


def test_an_unknown_unit_is_no_number() -> None:
    assert parse_counters(RAW.replace('"ns"', '"fortnight"'))[0].duration_ns is None


def test_stalls_are_ordered_and_issuing_is_none() -> None:
    assert parse_counters(RAW)[0].stalls == (
        ("long_scoreboard", 4.25), ("barrier", 1.1), ("wait", 0.875), ("short_scoreboard", 0.31),
    )  # fmt: skip


def test_what_the_chip_does_not_have_is_none() -> None:
    launch = parse_counters(RAW)[0]
    assert launch.value("smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio") is None
    assert launch.value("no__such.metric") is None


@pytest.mark.parametrize("text", ["", "==ERROR== nothing\n", '"ID","Kernel Name"\n', '"ID","Kernel Name"\n"",""\n'])
def test_text_without_a_launch_is_an_error(text: str) -> None:
    with pytest.raises(WorkFailed):
        parse_counters(text)


@given(st.integers(0, len(RAW)))
def test_a_table_cut_short_is_an_error_or_right(length: int) -> None:
    whole = parse_counters(RAW)
    try:
        found = parse_counters(RAW[:length])
    except WorkFailed:
        return
    assert found == whole[: len(found)]
