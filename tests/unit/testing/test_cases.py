"""Case lists: unique stable ids, a complete cover of pairs, and bounds on work."""

import itertools
import re
from typing import get_args

import pytest

from sparkctl.errors import UsageError
from sparkctl.registry import find_project, load_registry, select_variants, span_variants
from sparkctl.registry.model import Range
from sparkctl.testing import decode_cases
from sparkctl.testing.cases import CASES, accepted, cases_for, kernels_with_cases
from sparkctl.testing.combine_cases import PATTERNS, combine_cases
from sparkctl.testing.model import DecodeCase, MaskKind, case_seed
from sparkctl.testing.option_cases import OPTION_AXES
from sparkctl.testing.paged_cases import paged_cases

MASK_KINDS = get_args(MaskKind)


@pytest.fixture(scope="module")
def registry():
    return load_registry(find_project(None) / "flags.yaml")


def test_every_kernel_of_the_registry_has_cases(registry):
    assert kernels_with_cases() == set(registry.kernels)
    for variant in select_variants(registry):
        assert cases_for(variant)


def test_a_kernel_for_both_kinds_of_keys_has_the_cases_of_each(registry):
    contiguous, paged = (
        cases_for(select_variants(registry, [f"fa_split_gqa.bf16.d64{suffix}"])[0]) for suffix in ("", ".p1")
    )
    assert contiguous == decode_cases.decode_cases("quick")
    assert paged == paged_cases("quick")
    assert all(case.page_size is None for case in contiguous)
    assert all(case.page_size for case in paged)


@pytest.mark.parametrize("grid", ["quick", "full", "device"])
@pytest.mark.parametrize("kernel", sorted(CASES))
def test_ids_are_unique_and_fit_a_shell(kernel, grid):
    ids = [case.id for case in CASES[kernel](grid)]
    assert len(set(ids)) == len(ids)
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_.+-") for name in ids)


def test_an_id_says_what_the_case_is():
    case = DecodeCase(
        (100, 50, 0), num_kv_heads=2, group=5, qo_len=4, num_splits=7, causal=True, layout="padded", slack=7, label="x"
    )
    assert case.id == "x-b3-kv100.50.0+7-h2-g5-q4-s7-causal-padded-lse"
    assert DecodeCase((16,) * 3, num_splits=None, return_lse=False).id == "b3-kv16-h1-g1-q1-sauto"
    case = DecodeCase((16,), window=0, softcap=2.5, mask="rank3_row", sinks=True)
    assert case.id == "b1-kv16-h1-g1-q1-s1-w0-cap2.5-mask_rank3_row-sinks-lse"


def test_a_seed_depends_on_the_id_and_the_seed_given_and_on_nothing_else():
    case = DecodeCase((16,))
    assert case_seed(case) == 44211570530161135
    assert len({case_seed(case), case_seed(case, 1), case_seed(DecodeCase((17,)))}) == 3


def test_ragged_lengths_without_kv_lens_are_refused():
    with pytest.raises(ValueError, match="ragged lengths"):
        DecodeCase((1, 2))


PLAIN_NAMES = (
    "group",
    "layout",
    "qo_len",
    "num_kv_heads",
    "causal",
    "return_lse",
    "window",
    "softcap",
    "mask",
    "sinks",
)


def axis_values(case: DecodeCase) -> dict:
    row = {name: getattr(case, name) for name in PLAIN_NAMES}
    kv_len = max(case.kv_lens)
    most = max(1, -(-kv_len // decode_cases.SPLIT_KEYS))
    splits = {case.num_splits, "max" if case.num_splits == most else case.num_splits}
    return row | {"kv_len": kv_len, "batch": case.batch, "ragged": case.slack is not None, "num_splits": splits}


def covered_pairs(cases) -> set:
    pairs = set()
    for case in cases:
        row = {name: value if isinstance(value, set) else {value} for name, value in axis_values(case).items()}
        for a, b in itertools.combinations(sorted(row), 2):
            pairs |= {(a, x, b, y) for x in row[a] for y in row[b]}
    return pairs


def feasible_pairs(axes, work) -> set:
    """Pairs that the cheapest case holding them can afford."""
    pairs = set()
    for a, b in itertools.combinations(sorted(axes), 2):
        for x, y in itertools.product(axes[a], axes[b]):
            cheapest = {"ragged": False, "batch": 1, "kv_len": 0} | {a: x, b: y}
            ragged = {"ragged": True, "batch": 1, "kv_len": 0} | {a: x, b: y}
            if min(decode_cases.scores(cheapest), decode_cases.scores(ragged)) <= work:
                pairs.add((a, x, b, y))
    return pairs


def test_the_cover_holds_every_pair_of_axis_values_that_it_can_afford():
    cases = decode_cases.cover(decode_cases.AXES, decode_cases.EMULATOR_WORK)
    wanted = feasible_pairs(decode_cases.AXES, decode_cases.EMULATOR_WORK)
    everything = sum(len(x) * len(y) for x, y in itertools.combinations(decode_cases.AXES.values(), 2))
    assert len(wanted) == everything - 1, "8 kv heads over 4097 keys are the one pair that costs too much"
    assert wanted - covered_pairs(cases) == set()
    assert 100 <= len(cases) <= 160


@pytest.mark.parametrize(
    ("kv_lens", "work"),
    [
        (decode_cases.FULL_KV_LENS, decode_cases.FULL_EMULATOR_WORK),
        (decode_cases.DEVICE_KV_LENS, decode_cases.DEVICE_WORK),
    ],
)
def test_the_larger_covers_hold_every_pair_too(kv_lens, work):
    axes = {**decode_cases.AXES, "kv_len": kv_lens}
    assert feasible_pairs(axes, work) - covered_pairs(decode_cases.cover(axes, work)) == set()


def test_the_options_have_a_cover_of_their_own():
    axes = {**OPTION_AXES, "kv_len": (33, 200)}  # no row's splits of one key or 100 are one a tile
    cases = decode_cases.cover(axes, decode_cases.EMULATOR_WORK)
    assert feasible_pairs(axes, decode_cases.EMULATOR_WORK) - covered_pairs(cases) == set()
    whole = decode_cases.cover(OPTION_AXES, decode_cases.EMULATOR_WORK)
    assert {(c.mask, c.window) for c in whole} == set(itertools.product(OPTION_AXES["mask"], OPTION_AXES["window"]))
    assert {(c.mask, c.softcap) for c in whole} == set(itertools.product(OPTION_AXES["mask"], OPTION_AXES["softcap"]))
    assert set(MASK_KINDS) == set(OPTION_AXES["mask"])


@pytest.mark.parametrize("kernel", ["attn_decode_split_kv", "attn_paged_decode_split_kv"])
def test_the_options_lengthen_the_quick_set_by_less_than_a_sixth(kernel):
    cases = CASES[kernel]("quick")
    optional = [c for c in cases if c.sinks or c.mask != "none" or c.window is not None or c.softcap is not None]
    assert len(optional) > 40
    assert sum(case.work for case in optional) < sum(case.work for case in cases) / 6


def test_the_work_of_a_window_is_that_of_the_keys_it_shows():
    case = DecodeCase((4097, 10), slack=0, window=20, qo_len=2)
    assert case.first_keys == (4075, 0)
    assert case.work == (22 + 10) * 16


def test_a_cover_without_one_case_misses_pairs():
    cases = decode_cases.cover(decode_cases.AXES, decode_cases.EMULATOR_WORK)
    wanted = feasible_pairs(decode_cases.AXES, decode_cases.EMULATOR_WORK)
    assert any(wanted - covered_pairs(cases[:i] + cases[i + 1 :]) for i in range(len(cases)))


def test_emulator_cases_stay_inside_the_work_bound():
    assert max(case.work for case in decode_cases.decode_cases("quick")) <= decode_cases.EMULATOR_WORK
    assert sum(case.work for case in decode_cases.decode_cases("quick")) < 4_000_000


def test_the_lists_hold_what_a_kernel_gets_wrong():
    cases = decode_cases.decode_cases("quick")
    assert any(case.kv_capacity == 0 for case in cases)
    assert any(0 in case.kv_lens and max(case.kv_lens) > 0 for case in cases)
    assert any(case.causal and 0 < min(case.kv_lens) < case.qo_len for case in cases)
    assert any(case.causal and max(case.kv_lens) > case.qo_len > 1 for case in cases)
    assert any(case.slack and case.slack >= 64 for case in cases)
    assert any(case.num_splits and case.num_splits > max(case.kv_lens) for case in cases)
    assert any(case.logits == "large" for case in cases)
    assert any((case.num_qo_heads, case.num_kv_heads) == (32, 8) for case in cases)
    assert any(case.window == 0 and case.causal and case.qo_len > 1 for case in cases)
    assert any(case.window is not None and 0 < case.window < case.qo_len for case in cases)
    assert {"huge_batch", "huge_len", "huge_heads"} <= {case.layout for case in cases}


OPTION_LABELS = {
    "window_across_splits",
    "window_smaller_than_tile",
    "window_of_one",
    "window_smaller_than_queries",
    "window_with_long_cache",
    "softcap_at_half",
    "softcap_and_large_logits",
    "sinks_without_keys",
    "sinks_once",
    "mask_all_rows",
    "mask_first_tile_hidden",
    "every_option",
}
SHARED_LABELS = {
    "group_sizes",
    "zero_in_middle",
    "poisoned_tail",
    "offsets_past_2_31",
    "planned_for_longer",
    "large_logits",
}
PAGED_LABELS = {
    "page_sizes",
    "whole_pages",
    "one_short",
    "one_more",
    "shuffled_pages",
    "shared_pages",
    "mask_over_page_tails",
    "window_starts_inside_a_page",
    "pages_before_a_window",
}


def test_every_fault_has_its_named_case_for_every_decode_kernel():
    for kernel, of_kernel in CASES.items():
        cases = of_kernel("quick")
        if not isinstance(cases[0], DecodeCase):
            continue
        labels = {case.label for case in cases}
        assert labels >= OPTION_LABELS | SHARED_LABELS, kernel
        assert {c.group for c in cases if c.label == "group_sizes"} == {1, 2, 3, 5, 6, 7, 12, 32}
        if any(case.page_size for case in cases):
            assert labels >= PAGED_LABELS
            assert {c.page_size for c in cases if c.label == "page_sizes"} == {1, 8, 16, 24, 48, 256}
            for label, rest in (("whole_pages", 0), ("one_short", -1), ("one_more", 1)):
                named = [c for c in cases if c.label == label]
                assert {c.page_size for c in named} >= {8, 16, 24, 48, 256}
                assert all((length - rest) % c.page_size == 0 for c in named for length in c.kv_lens if length)


def test_the_table_of_named_cases_holds_every_label_of_decode_and_no_other():
    text = (find_project(None) / "docs" / "testing.md").read_text(encoding="utf-8")
    section = text.partition("\n## The cases\n")[2].partition("\n## ")[0]  # other tables name families
    rows = re.findall(r"^\| (`[a-z0-9_`, ]+`) \|", section, flags=re.MULTILINE)
    table = {name for row in rows for name in re.findall(r"`([a-z0-9_]+)`", row)}
    cases = [case for of_kernel in CASES.values() for case in of_kernel("quick")]
    labels = {case.label for case in cases if isinstance(case, DecodeCase) and case.label}
    assert len(labels) > 40
    assert labels - table == set()
    assert {name for name in table if "_" in name} - labels == set()


def test_combine_covers_every_pattern_with_every_number_of_splits():
    seen = {(case.pattern, case.num_splits) for case in combine_cases("quick")}
    assert {(pattern, splits) for pattern in PATTERNS for splits in (1, 2, 3, 7, 8, 33, 129)} <= seen


def test_the_larger_grids_contain_the_quick_one():
    for of_kernel in CASES.values():
        for larger in ("full", "device"):
            assert set(of_kernel("quick")) < set(of_kernel(larger))


def test_a_case_outside_what_flags_yaml_accepts_is_left_out(registry):
    import dataclasses

    kernel = registry.kernels["attn_decode_split_kv_mma"]
    narrow = dataclasses.replace(kernel, accepts={"group": Range(1, 8), "qo_len": Range(1, 4)})
    cases = cases_for(span_variants(narrow)[0])
    assert cases
    assert all(case.group <= 8 and case.qo_len <= 4 for case in cases)
    assert not accepted(narrow, DecodeCase((16,), group=9))


def test_a_kernel_without_cases_is_an_error_that_names_its_line(registry):
    import dataclasses

    unknown = dataclasses.replace(registry.kernels["attn_combine"], name="attn_new")
    with pytest.raises(UsageError, match=r"flags\.yaml:\d+: attn_new has no test cases"):
        cases_for(span_variants(unknown)[0])
