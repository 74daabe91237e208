"""benchmarks/splits_rule.py: the old rule, and that both rules are measured as arms of one case."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

from sparkctl.bench.ab import Bits, Comparison
from sparkctl.bench.arms import KernelCall
from sparkctl.bench.axes import DecodeCase, Heads
from sparkctl.bench.call_options import CallOptions
from sparkctl.bench.results import Ceiling, Row, Sample, Series
from sparkctl.bench.traffic import decode_traffic
from sparkctl.runtime import Library

SCRIPT = Path(__file__).resolve().parents[3] / "benchmarks" / "splits_rule.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("splits_rule", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["splits_rule"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("planned", "kv_len", "splits"),
    [(1, 64, 1), (4, 255, 1), (4, 256, 1), (8, 512, 2), (16, 768, 3), (16, 1024, 4), (2, 4096, 2), (7, 0, 1)],
)
def test_the_old_rule_gives_each_split_256_keys(script: ModuleType, planned: int, kv_len: int, splits: int) -> None:
    assert script.capped_splits(planned, kv_len, 64) == splits


class FakeSession:
    """The old splits take 4 µs, the new 3."""

    class facts:  # noqa: N801
        sm_count = 132

    def compare(
        self, case: DecodeCase, arms: Sequence[tuple[str, KernelCall]], options: Sequence[CallOptions] = ()
    ) -> tuple[tuple[Row, ...], tuple[Comparison, ...]]:
        rows = []
        for (label, call), time_us in zip(arms, (4.0, 3.0), strict=True):
            series = Series((Sample(time_us),) * 20, 10, "precise")
            traffic = decode_traffic(case)
            plan = call.plan
            ceiling = Ceiling("r", traffic.bytes, series)
            rows.append(
                Row(case, "k", plan.variant, plan.num_splits, traffic, 3, series, series, ceiling, (), "", label)
            )
        return tuple(rows), (Comparison(rows[0], rows[1], Bits(0, 8, 0.0)),)


def test_cases_with_equal_splits_are_named_and_not_measured(
    script: ModuleType, library: Library, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = [DecodeCase(1, kv_len, Heads(32, 8), 64) for kv_len in (64, 1024)]
    rows, found, equal = script.compare_rules(FakeSession(), library, cases)
    assert [case.kv_len for case in equal] == [64]
    assert [(row.arm, row.variant, row.num_splits) for row in rows] == [
        ("rule=old", "attn_decode_split_kv_mma.bf16.d64.s4", 4),
        ("rule=new", "attn_decode_split_kv_mma.bf16.d64.s4", 16),
    ]
    first, second = capsys.readouterr().out.splitlines()
    assert first == "1 × 64, 32/8, d64, bf16             1 → 1    the same splits"
    assert second.endswith("4.00 →   3.00 µs, ratio 1.333 (1.333–1.333), faster, bits equal")
    assert script.summarise(found, equal) == (
        "geometric mean of 1 ratios: 1.333; 1 cases with the same splits are not in it"
    )


def test_the_cases_are_those_that_the_cap_used_to_reach(script: ModuleType) -> None:
    assert {case.kv_len for case in script.CASES} == {64, 128, 192, 256, 384, 512, 768, 1024}
    assert len(script.CASES) == len(set(script.CASES)) == 40
