"""Every kernel's cases against the fp64 reference, on the emulator and, marker gpu, on a device."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch

from sparkctl.build import DEFAULT_ARCH, ensure_built
from sparkctl.registry import Variant, find_project, load_registry, select_variants
from sparkctl.runtime import Library, load_library
from sparkctl.testing import prepare
from sparkctl.testing.cases import cases_for
from sparkctl.testing.decode_cases import named_cases
from sparkctl.testing.model import DecodeCase
from sparkctl.testing.prepare import Target
from sparkctl.testing.results import Selection
from sparkctl.testing.spread import spread_variants
from sparkctl.testing.suite import run_variant
from sparkctl.toolchain import find_devices

REGISTRY = load_registry(find_project(None) / "flags.yaml")
EMULATED = [
    variant
    for kernel in REGISTRY.kernels
    for variant in spread_variants(select_variants(REGISTRY, [kernel], arch=DEFAULT_ARCH))
]
MOST_PARTS = 4  # of the cases: each variant runs one
DECODE_KERNELS = ["attn_decode_split_kv", "attn_decode_split_kv_mma"]
# Small cases in which tiles are refilled and splits are empty.
PIPELINED = [c for c in named_cases() if c.label in ("tile_counts", "zero_in_middle", "mask_across_tiles")]


def names(variants: list[Variant]) -> list[str]:
    return [variant.name for variant in variants]


@cache
def emulator() -> Library:
    combines = select_variants(REGISTRY, ["attn_combine"], arch=DEFAULT_ARCH)
    wanted = {v.name: v for v in [*EMULATED, *combines, *staged("bf16", 64)]}
    return load_library(ensure_built(REGISTRY, list(wanted.values()), arch=DEFAULT_ARCH, backend="emulator"))


def staged(dtype: str, head_dim: int) -> list[Variant]:
    """The mma variants that differ in stages alone."""
    tile = {"block_kv": ["64"], "q_frag": ["resident"], "rows": ["8"]}
    where = {"dtype": [dtype], "head_dim": [str(head_dim)], **tile}
    return list(select_variants(REGISTRY, ["attn_decode_split_kv_mma"], where=where))


@pytest.fixture
def target():
    library = emulator()
    library.configure_emulator()
    yield Target(library, "cpu")
    library.configure_emulator()


def failures_of(target: Target, selection: Selection) -> list[str]:
    result = run_variant(target, selection)
    assert result.cases_run == len(selection.cases) > 0
    assert not result.skips
    return [f"{failure.case_id}: {failure.message}" for failure in result.failures]


@pytest.mark.parametrize("number", range(len(EMULATED)), ids=names(EMULATED))
def test_the_cases_pass_on_the_emulator(target: Target, number: int) -> None:
    """A share of them with one variant, the next with the one behind it; `make full` runs all with all."""
    variant = EMULATED[number]
    part, parts = share_of(number)
    assert failures_of(target, Selection(variant, cases_for(variant)[part::parts])) == []


def share_of(number: int) -> tuple[int, int]:
    """(which, of how many): a kernel's variants take its cases in turns."""
    kernel = EMULATED[number].kernel.name
    own = [index for index, variant in enumerate(EMULATED) if variant.kernel.name == kernel]
    parts = min(MOST_PARTS, len(own))
    return own.index(number) % parts, parts


def test_all_cases_of_each_kernel_run_with_some_variant() -> None:
    for kernel in REGISTRY.kernels:
        shares = [share_of(number) for number, variant in enumerate(EMULATED) if variant.kernel.name == kernel]
        parts = {parts for _, parts in shares}
        assert len(parts) == 1, kernel
        assert {part for part, _ in shares} == set(range(*parts)), kernel


def outputs_of(target: Target, variant: Variant, case: DecodeCase) -> list[torch.Tensor]:
    outputs = prepare.prepare_decode(target, variant, case).call()
    assert outputs.lse is not None
    return [outputs.out.view.clone(), outputs.lse.view.clone(), *(part.view.clone() for part in outputs.partials)]


def assert_same_bits(a: list[torch.Tensor], b: list[torch.Tensor]) -> None:
    for x, y in zip(a, b, strict=True):
        bits = torch.int16 if x.element_size() == 2 else torch.int32
        assert torch.equal(x.view(bits), y.view(bits))


def test_the_number_of_stages_changes_no_bit_of_the_partials(target: Target) -> None:
    for case in PIPELINED:
        first, *others = [outputs_of(target, variant, case) for variant in staged("bf16", 64)]
        assert others
        for other in others:
            assert_same_bits(first, other)


@pytest.mark.parametrize("kernel", DECODE_KERNELS)
def test_a_nan_in_a_key_that_is_seen_reaches_every_row_that_sees_it(target: Target, kernel: str) -> None:
    from sparkctl import ops

    variant = select_variants(REGISTRY, [kernel], where={"dtype": ["bf16"], "head_dim": ["64"]})[0]
    q = torch.randn(1, 4, 4, 64).bfloat16()
    k, v = torch.randn(1, 70, 2, 64).bfloat16(), torch.randn(1, 70, 2, 64).bfloat16()
    k[0, 68, 1, 5] = float("nan")  # seen by the queries from the third on, of the second kv head
    out = ops.decode(q, k, v, causal=True, num_splits=2, variant=variant.name, library=target.library)
    is_nan = out.isnan().all(-1)[0]
    assert is_nan.tolist() == [[False, False, i >= 2, i >= 2] for i in range(4)]
    assert torch.equal(out.isnan().any(-1)[0], is_nan)


def test_the_cases_catch_a_library_that_ignores_its_lengths(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    variant = staged("bf16", 64)[0]
    good = prepare.make_decode_inputs
    monkeypatch.setattr(prepare, "run_planned_call", without_lengths(prepare.run_planned_call))
    case = replace(named_cases()[0], kv_lens=(40, 3), slack=2)
    assert good is prepare.make_decode_inputs
    assert len(failures_of(target, Selection(variant, (case,)))) == 1


def without_lengths(run):
    return lambda target, variant, case, inputs, dtype: run(target, variant, case, replace(inputs, kv_lens=None), dtype)


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", sorted(REGISTRY.kernels))
def test_the_cases_pass_on_a_device(kernel: str) -> None:
    devices = find_devices()
    if not devices or not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    arch = devices[0].arch
    variants = select_variants(REGISTRY, [kernel], arch=arch, where={"head_dim": ["128"]} if "attn" in kernel else {})
    combines = select_variants(REGISTRY, ["attn_combine"], arch=arch, where={"head_dim": ["128"]})
    wanted = {v.name: v for v in [*variants, *combines]}
    target = Target(load_library(ensure_built(REGISTRY, list(wanted.values()), arch=arch, backend="cuda")), "cuda:0")
    for variant in variants:
        assert failures_of(target, Selection(variant, cases_for(variant))) == []
