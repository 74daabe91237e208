"""Suites: case texts read back, the suites of flags.yaml, and what options do to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkctl.arch import Arch
from sparkctl.bench.axes import DecodeCase, Heads, parse_case
from sparkctl.bench.suites import find_suites, suite_cases, wrong_cases
from sparkctl.errors import UsageError
from sparkctl.registry import Location, Registry, Suite, load_registry
from sparkctl.workflows.bench_plan import plan_bench
from sparkctl.workflows.bench_request import BenchRequest

ROOT = Path(__file__).resolve().parents[3]
ALL = {
    "kv_len": (4096,),
    "batch": (1,),
    "heads": (Heads(32, 8),),
    "head_dim": (128,),
    "dtype": ("bf16",),
    "page_size": (None,),
    "qo_len": (1,),
    "causal": (False,),
    "num_splits": (None,),
    "l2": ("cold",),
}


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_registry(ROOT / "flags.yaml")


def suite(*cases: str) -> Suite:
    return Suite("mine", "-", cases, tuple(Location("flags.yaml", 10 + i) for i in range(len(cases))), Location("f", 9))


def labels(*cases: str, given: tuple[str, ...] = (), **options: object) -> list[str]:
    return [case.label for case in suite_cases([suite(*cases)], {**ALL, **options}, given)]  # type: ignore[dict-item]


@pytest.mark.parametrize(
    "case",
    [
        DecodeCase(1, 16384, Heads(32, 8), 128),
        DecodeCase(64, 1000, Heads(4, 4), 64, "fp16", page_size=16),
        DecodeCase(2, 100, Heads(4, 4), 64, "fp16", qo_len=3, causal=True, num_splits=7, l2="hot", page_size=1),
    ],
)
def test_every_label_reads_back_as_its_case(case: DecodeCase) -> None:
    assert parse_case(case.label)[0] == case


def test_what_a_case_leaves_out_is_known() -> None:
    case, stated = parse_case("8 x 16k, 32/8, d128, pages of 16")
    assert case == DecodeCase(8, 16384, Heads(32, 8), 128, page_size=16)
    assert stated == {"batch", "kv_len", "heads", "head_dim", "page_size"}
    assert parse_case("8x16k, 32/8, d128, fp16")[1] - stated == {"dtype"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is not a case"),
        ("8 x 16k, 32/8", "is not a case"),
        ("8 x 16k, 32/8, 128", "is not a case"),
        ("8 16k, 32/8, d128", "is not a case"),
        ("8 x 16q, 32/8, d128", "'16q' is not a size"),
        ("0 x 16k, 32/8, d128", "batch '0' is less than 1"),
        ("8 x 16k, 32/5, d128", "32 query heads cannot be shared by 5 kv heads"),
        ("8 x 16k, 32/8, d128, page of 16", "'page of 16' is nothing that a case says"),
        ("8 x 16k, 32/8, d128, pages of 0", "page_size '0' is less than 1"),
        ("8 x 16k, 32/8, d128, bf16, fp16", "'fp16': dtype is said twice"),
    ],
)
def test_what_no_label_says_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_case(text)
    assert message in caught.value.message


def test_every_wrong_entry_is_named_with_its_line_at_once() -> None:
    bad = suite("1 x 4k, 32/8, d128", "1 x 4k", "1 x 4q, 32/8, d128", "1 x 4096, 32/8, d128")
    with pytest.raises(UsageError) as caught:
        suite_cases([bad], ALL, ())
    assert caught.value.message.splitlines() == [
        "flags.yaml:11: key suites.mine.cases[1]: '1 x 4k' is not a case",
        "flags.yaml:12: key suites.mine.cases[2]: '4q' is not a size",
        "flags.yaml:13: key suites.mine.cases[3]: '1 x 4096, 32/8, d128' is written twice",
    ]
    assert [wrong.location.line for wrong in wrong_cases(bad)] == [11, 12, 13]


def test_options_say_what_a_case_leaves_out() -> None:
    assert labels("1 x 4k, 32/8, d128", "1 x 1k, 32/8, d64, fp16", dtype=("bf16", "fp16"), l2=("hot",)) == [
        "1 × 4k, 32/8, d128, bf16, hot L2",
        "1 × 4k, 32/8, d128, fp16, hot L2",
        "1 × 1k, 32/8, d64, fp16, hot L2",
    ]


def test_a_given_option_narrows_and_a_default_does_not() -> None:
    cases = ("1 x 4k, 32/8, d128", "8 x 4k, 32/8, d64", "8 x 1k, 32/8, d128, pages of 16")
    assert len(labels(*cases)) == 3
    assert labels(*cases, batch=(8,), given=("batch",)) == [
        "8 × 4k, 32/8, d64, bf16",
        "8 × 1k, 32/8, d128, bf16, pages of 16",
    ]
    assert labels(*cases, batch=(8,), page_size=(16,), given=("batch", "page_size")) == [
        "8 × 1k, 32/8, d128, bf16, pages of 16"
    ]


def test_narrowed_to_nothing_the_error_says_what_there_is() -> None:
    with pytest.raises(UsageError) as caught:
        labels("1 x 4k, 32/8, d128", "8 x 4k, 32/8, d64", batch=(2, 4), page_size=(16,), given=("batch", "page_size"))
    assert caught.value.message == "--suite mine has no case of --batch 2,4 --page-size 16"
    assert caught.value.hint == "its cases have --batch 1,8, --page-size none"


def test_a_case_of_two_suites_runs_once(registry: Registry) -> None:
    both = suite_cases(find_suites(registry, ["decode", "short"]), ALL, ())
    assert len(both) == 15 + 5 - 1


def test_a_mask_that_leaves_a_query_no_key_is_refused() -> None:
    with pytest.raises(UsageError, match="leaves queries without a key"):
        labels("1 x 2, 32/8, d128, qo_len 4, causal")


def test_the_suites_of_the_project_are_these(registry: Registry) -> None:
    counts = {name: len(suite_cases([suite], ALL, ())) for name, suite in registry.suites.items()}
    assert counts == {
        "decode": 15,
        "paged": 10,
        "prefill": 6,
        "ragged": 4,
        "short": 5,
        "llama3-8b": 4,
        "llama3-70b": 4,
        "qwen3-30b-a3b": 4,
        "gemma": 4,
    }


def test_every_suite_of_the_project_has_kernels(registry: Registry) -> None:
    for suite in registry.suites.values():
        cases = suite_cases([suite], {**ALL, "dtype": ("bf16", "fp16")}, ())
        plan = plan_bench(registry, BenchRequest(cases, pages_given=True), Arch(9, 0))
        assert [job.case for job in plan.jobs] == list(cases)


def test_an_unknown_suite_names_the_nearest(registry: Registry) -> None:
    with pytest.raises(UsageError) as caught:
        find_suites(registry, ["llama-8b"])
    assert caught.value.message == "--suite: flags.yaml has no suite 'llama-8b'"
    assert caught.value.hint == "did you mean 'llama3-8b'?"
