"""The CUDA-core and the tensor-core path side by side: both forced on one machine, their partials interchangeable."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from sparkctl import ops
from sparkctl.registry import find_project, load_registry, select_variants
from sparkctl.runtime import Library
from sparkctl.testing.cases import cases_for
from sparkctl.testing.compare import compare_outputs
from sparkctl.testing.prepare import Target
from sparkctl.testing.reference import attention_reference, plain_emulation
from sparkctl.testing.results import Selection
from sparkctl.testing.suite import run_variant

PATHS = ["attn_decode_split_kv", "attn_decode_split_kv_mma"]
PAGED_PATHS = ["attn_paged_decode_split_kv", "attn_paged_decode_split_kv_mma"]
REGISTRY = load_registry(find_project(None) / "flags.yaml")
Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def inputs(kv_len: int = 150, qo_len: int = 2) -> Tensors:
    generator = torch.Generator().manual_seed(3)
    shapes = ((2, qo_len, 12, 64), (2, kv_len, 3, 64), (2, kv_len, 3, 64))
    q, k, v = (torch.randn(shape, generator=generator).bfloat16() for shape in shapes)
    return q, k, v


def assert_right(out: torch.Tensor, lse: torch.Tensor | None, tensors: Tensors, **options: Any) -> None:
    expected_out, expected_lse = attention_reference(*tensors, **options)
    comparison = compare_outputs(
        out,
        lse,
        expected_out=expected_out,
        expected_lse=expected_lse,
        plain_out=plain_emulation(*tensors, **options),
        dtype="bf16",
    )
    assert comparison.mismatch is None, str(comparison.mismatch)


@pytest.mark.parametrize("kernel", PATHS)
def test_a_forced_path_is_the_one_that_runs(small_library: Library, kernel: str) -> None:
    tensors = inputs()
    plan = ops.decode(*tensors, kernel=kernel, library=small_library, explain=True)
    assert small_library.variant(plan.variant).kernel == kernel
    before = small_library.emulator_launch_count()
    out, lse = ops.decode(*tensors, kernel=kernel, library=small_library, return_lse=True)
    assert small_library.emulator_launch_count() - before == 2
    assert_right(out, lse, tensors)


@pytest.mark.parametrize("kernel", PAGED_PATHS)
def test_a_forced_path_over_pages_is_the_one_that_runs(small_library: Library, kernel: str) -> None:
    q, k, v = inputs(kv_len=144)
    table = torch.randperm(6, generator=torch.Generator().manual_seed(1)).view(2, 3)
    pages = [torch.empty(6, 48, 3, 64, dtype=torch.bfloat16) for _ in range(2)]
    for room, tensor in zip(pages, (k, v), strict=True):
        room[table.flatten()] = tensor.reshape(6, 48, 3, 64)
    args = (q, *pages, table.int(), torch.tensor([144, 144], dtype=torch.int32))
    plan = ops.paged_decode(*args, kernel=kernel, library=small_library, explain=True)
    assert small_library.variant(plan.variant).kernel == kernel
    before = small_library.emulator_launch_count()
    out, lse = ops.paged_decode(*args, kernel=kernel, library=small_library, return_lse=True)
    assert small_library.emulator_launch_count() - before == 2
    assert_right(out, lse, (q, k, v))


@pytest.mark.parametrize("first", PATHS)
@pytest.mark.parametrize("sinks", [None, torch.linspace(-2, 4, 12)], ids=["plain", "sinks"])
def test_partials_of_both_paths_merge(small_library: Library, first: str, sinks: torch.Tensor | None) -> None:
    q, k, v = inputs()
    second = PATHS[1 - PATHS.index(first)]
    spaces = []
    for kernel, keys, splits in ((first, slice(0, 70), 1), (second, slice(70, None), 2)):
        spaces.append(ops.allocate_workspace(q, splits))
        ops.decode(q, k[:, keys], v[:, keys], kernel=kernel, workspace=spaces[-1], library=small_library)
    parts = {
        name: torch.cat([getattr(space, name) for space in spaces], dim=3)
        for name in ("part_acc", "part_max", "part_sum")
    }
    out, lse = ops.combine(**parts, dtype=torch.bfloat16, sinks=sinks, library=small_library)
    assert_right(out, lse, (q, k, v), sinks=sinks)


@pytest.mark.parametrize("kernel", PATHS)
def test_one_split_goes_through_the_same_code(small_library: Library, kernel: str) -> None:
    tensors = inputs()
    space = ops.allocate_workspace(tensors[0], 1)
    space.part_acc.fill_(float("nan"))
    before = small_library.emulator_launch_count()
    out, lse = ops.decode(*tensors, kernel=kernel, workspace=space, library=small_library, return_lse=True)
    assert small_library.emulator_launch_count() - before == 2, "the merge runs behind one split too"
    assert space.part_acc.isfinite().all()
    merged = ops.combine(space.part_acc, space.part_max, space.part_sum, dtype=torch.bfloat16, library=small_library)
    assert torch.equal(merged[0], out)
    assert torch.equal(merged[1], lse)


@pytest.mark.parametrize("kernel", PATHS)
def test_a_plan_made_for_the_capacity_serves_every_length(small_library: Library, kernel: str) -> None:
    """What a captured graph does: the launches stay, the lengths in memory change."""
    q, k, v = inputs(kv_len=600, qo_len=1)
    kv_lens = torch.ones(2, dtype=torch.int32)
    space = ops.allocate_workspace(q, 5)
    out = torch.empty_like(q)
    for lens in ([1, 1], [600, 64], [0, 599], [0, 0]):
        kv_lens.copy_(torch.tensor(lens))
        for tensor in (out, space.part_acc, space.part_max, space.part_sum):
            tensor.fill_(float("nan"))
        ops.decode(q, k, v, kv_lens=kv_lens, out=out, workspace=space, kernel=kernel, library=small_library)
        assert_right(out, None, (q, k, v), kv_lens=kv_lens)


@pytest.mark.parametrize("kernel", [*PATHS, *PAGED_PATHS])
def test_each_path_has_its_cases_and_the_number_shown_is_the_number_run(small_library: Library, kernel: str) -> None:
    variants = select_variants(REGISTRY, [kernel])
    assert {v.value("head_dim") for v in variants} >= {32, 64, 128, 256}
    variant = next(v for v in variants if v.name == f"{kernel}.bf16.d64")
    cases = cases_for(variant)
    assert len(cases) >= 14
    assert {case.group > 1 for case in cases} == {case.batch > 1 for case in cases} == {False, True}
    named = tuple(case for case in cases if case.label)[:20]
    result = run_variant(Target(small_library, "cpu"), Selection(variant, named))
    assert result.failures == ()
    assert result.cases_run == len(named)
    assert result.launches == 2 * len(named)
    assert len(set(result.case_ids)) == len(named)
