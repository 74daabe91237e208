"""Points of the axes and their selection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkctl.arch import parse_arch
from sparkctl.errors import UsageError
from sparkctl.registry import (
    Axis,
    Kernel,
    Location,
    Registry,
    Variant,
    find_project,
    load_registry,
    select_variants,
    span_variants,
)


def names(variants: Sequence[Variant]) -> list[str]:
    return [variant.name for variant in variants]


def test_variants_are_the_points_that_the_rules_allow_in_axis_order(registry: Registry) -> None:
    assert names(span_variants(registry.kernels["k_one"])) == [
        "k_one.bf16.d64.s1",
        "k_one.bf16.d64",
        "k_one.bf16.d128",
        "k_one.fp16.d64.s1",
        "k_one.fp16.d64",
        "k_one.fp16.d128",
    ]


def test_a_variant_knows_its_values_and_sizes(registry: Registry) -> None:
    variant = span_variants(registry.kernels["k_one"])[2]
    assert variant.values == (("dtype", "bf16"), ("head_dim", 128), ("stages", 2))
    assert (variant.block_threads, variant.dynamic_smem_bytes) == (256, 0)
    assert variant.value("head_dim") == 128
    with pytest.raises(KeyError):
        variant.value("page_size")


def test_a_kernel_without_axes_is_one_variant_with_its_own_name(registry: Registry) -> None:
    assert names(span_variants(registry.kernels["k_two"])) == ["k_two"]


def test_a_new_axis_with_a_default_keeps_old_names(registry_of: Callable[[str], Registry], sample_text: str) -> None:
    old = names(span_variants(registry_of(sample_text).kernels["k_one"]))
    text = sample_text.replace("      stages:", "      paged: {values: [0, 1], short: p, default: 0}\n      stages:")
    assert set(old) < set(names(span_variants(registry_of(text).kernels["k_one"])))


SELECTIONS: list[tuple[list[str], dict[str, list[str]], list[str]]] = [
    (["k_two"], {}, ["k_two"]),
    (["k_*"], {"head_dim": ["128"]}, ["k_one.bf16.d128", "k_one.fp16.d128", "k_two"]),
    (["k_one.bf16.*"], {"stages": ["1"]}, ["k_one.bf16.d64.s1"]),
    (["k_two", "k_one.fp16.d128"], {}, ["k_one.fp16.d128", "k_two"]),
    (["k_one"], {"dtype": ["bf16", "fp16"], "stages": ["1"]}, ["k_one.bf16.d64.s1", "k_one.fp16.d64.s1"]),
    (["k_one", "k_one*"], {"dtype": ["bf16"], "head_dim": ["128"]}, ["k_one.bf16.d128"]),
]


@pytest.mark.parametrize(("patterns", "where", "expected"), SELECTIONS)
def test_names_globs_and_values_select(
    registry: Registry, patterns: list[str], where: dict[str, list[str]], expected: list[str]
) -> None:
    assert names(select_variants(registry, patterns, where=where)) == expected


def test_no_pattern_selects_everything(registry: Registry) -> None:
    assert len(select_variants(registry)) == 7


REFUSED: list[tuple[list[str], Mapping[str, list[str]], str, str | None]] = [
    (["k_on"], {}, "unknown kernel 'k_on'", "did you mean 'k_one'?"),
    (["x*"], {}, "no kernel matches 'x*'", "known: k_one, k_two"),
    (["k_one.bf16.d12"], {}, "unknown variant 'k_one.bf16.d12'", "did you mean 'k_one.bf16.d128'?"),
    ([], {"head_dims": ["64"]}, "unknown axis 'head_dims'", "did you mean 'head_dim'?"),
    (["k_two"], {"head_dim": ["64"]}, "unknown axis 'head_dim'", "nothing selected has axes"),
    ([], {"head_dim": ["65"]}, "axis head_dim: unknown value '65'", "known: 64, 128"),
    (
        ["k_one"],
        {"head_dim": ["128"], "stages": ["1"]},
        "axis stages: unknown value '1'",
        "known: 2",
    ),
]


@pytest.mark.parametrize(("patterns", "where", "message", "hint"), REFUSED)
def test_what_selects_nothing_is_an_error_with_a_hint(
    registry: Registry, patterns: list[str], where: dict[str, list[str]], message: str, hint: str | None
) -> None:
    with pytest.raises(UsageError) as caught:
        select_variants(registry, patterns, where=where)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_an_arch_drops_kernels_that_are_too_new(registry: Registry) -> None:
    assert "k_two" not in names(select_variants(registry, arch=parse_arch("sm_89")))
    assert "k_two" in names(select_variants(registry, arch=parse_arch("sm_90a")))
    with pytest.raises(UsageError) as caught:
        select_variants(registry, ["k_two"], arch=parse_arch("sm_89"))
    assert caught.value.message == "nothing selected runs on sm_89"
    assert caught.value.hint == "min_arch: k_two sm_90"


def test_an_arch_drops_variants_that_need_more_shared_memory_than_a_block_may_have(
    registry_of: Callable[[str], Registry], sample_text: str
) -> None:
    registry = registry_of(sample_text.replace("dynamic_smem: 0", "dynamic_smem: head_dim * 1024"))
    assert len(select_variants(registry, ["k_one"], arch=parse_arch("sm_90"))) == 6
    assert {v.value("head_dim") for v in select_variants(registry, ["k_one"], arch=parse_arch("sm_86"))} == {64}
    with pytest.raises(UsageError) as caught:
        select_variants(registry, ["k_one"], arch=parse_arch("sm_86"), where={"head_dim": ["128"]})
    least = names(select_variants(registry, ["k_one"], where={"head_dim": ["128"]}))[0]
    reason = f"the smallest, {least}, needs 131072 bytes of dynamic shared memory; a block on sm_86 gets 101376 at most"
    assert caught.value.hint == reason


def test_a_variant_asked_for_by_name_is_not_dropped_in_silence(
    registry_of: Callable[[str], Registry], sample_text: str
) -> None:
    registry = registry_of(sample_text.replace("dynamic_smem: 0", "dynamic_smem: head_dim * 1024"))
    small, large = (
        names(select_variants(registry, ["k_one"], where={"head_dim": [head_dim]}))[0] for head_dim in ("64", "128")
    )
    with pytest.raises(UsageError) as caught:
        select_variants(registry, [small, large], arch=parse_arch("sm_86"))
    assert caught.value.message == f"{large} does not run on sm_86"
    reason = "it needs 131072 bytes of dynamic shared memory; a block on sm_86 gets 101376 at most"
    assert caught.value.hint == reason
    assert names(select_variants(registry, [small, large], arch=parse_arch("sm_90"))) == [small, large]


def test_stages_that_do_not_fit_are_refused_with_those_that_do() -> None:
    registry = load_registry(find_project() / "flags.yaml")
    kernel = "attn_decode_split_kv_mma.bf16.d256"
    with pytest.raises(UsageError) as caught:
        select_variants(registry, [f"{kernel}.s4"], arch=parse_arch("sm_90"))
    assert caught.value.message == f"{kernel}.s4 does not run on sm_90"
    assert caught.value.hint == (
        "it needs 262144 bytes of dynamic shared memory; a block on sm_90 gets 232448 at most; "
        f"these fit: {kernel}.s1, {kernel}"
    )


@given(st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=4, unique=True), max_size=4), st.data())
def test_names_are_unique_for_axes_with_prefixes(values: list[list[int]], data: st.DataObject) -> None:
    here = Location("flags.yaml", 1)
    axes = tuple(
        Axis(f"a{index}", tuple(points), "xyzw"[index], data.draw(st.sampled_from([None, *points])), here)
        for index, points in enumerate(values)
    )
    kernel = Kernel(
        name="k",
        family="f",
        doc="",
        source="k.cu",
        min_arch=parse_arch("sm_80"),
        axes=axes,
        require=(),
        block="32",
        dynamic_smem="0",
        accepts={},
        cases=None,
        cases_file=None,
        link=True,
        set={},
        arch_set={},
        nvcc={},
        waivers=(),
        locations={},
        location=here,
    )
    spanned = names(span_variants(kernel))
    assert len(set(spanned)) == len(spanned)
