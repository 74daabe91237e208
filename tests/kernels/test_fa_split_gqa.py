"""fa_split_gqa: its two pipelines give the same bits; the flag that chooses between them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from sparkctl import ops
from sparkctl.build import DEFAULT_ARCH, ensure_built
from sparkctl.registry import Variant, find_project, load_registry, select_variants
from sparkctl.runtime import Library, load_library
from sparkctl.testing import prepare
from sparkctl.testing.model import DecodeCase
from sparkctl.testing.prepare import Target
from sparkctl.testing.results import Selection
from sparkctl.testing.suite import run_variant

REGISTRY = load_registry(find_project(None) / "flags.yaml")
HEAD_DIMS = (32, 64, 96, 128, 192, 256)
TILE = 14
# Lengths around whole tiles, with tile counts 0, 1, 2, 3 and more.
KV_LENS = (0, 1, TILE - 1, TILE, TILE + 1, 2 * TILE, 2 * TILE + 1, 3 * TILE, 100, 257)
GROUPS = (1, 2, 3, 5, 6, 7, 12, 32)


def variant_named(name: str) -> Variant:
    return select_variants(REGISTRY, [name])[0]


def both_stages(head_dim: int) -> tuple[Variant, Variant]:
    return variant_named(f"fa_split_gqa.bf16.d{head_dim}.s1"), variant_named(f"fa_split_gqa.bf16.d{head_dim}")


def without_tensor_cores() -> list[Variant]:
    where = {"dtype": ["bf16"], "paged": ["0"], "tile": ["14"]}
    return [
        *select_variants(REGISTRY, ["fa_split_gqa", "attn_combine"], where=where),
        variant_named("attn_decode_split_kv.bf16.d64"),
    ]


@cache
def emulator() -> Library:
    return load_library(ensure_built(REGISTRY, without_tensor_cores(), arch=DEFAULT_ARCH, backend="emulator"))


@pytest.fixture
def target() -> Any:
    library = emulator()
    library.configure_emulator()
    yield Target(library, "cpu")
    library.configure_emulator()


def memory_of(target: Target, variant: Variant, case: DecodeCase) -> list[bytes]:
    """out, lse, part_acc, part_max and part_sum as they lie in memory after a call; all are poisoned before it."""
    outputs = prepare.prepare_decode(target, variant, case).call()
    assert outputs.lse is not None
    assert len(outputs.partials) == 3
    tensors = [outputs.out.view, outputs.lse.view, *(part.view for part in outputs.partials)]
    return [tensor.contiguous().view(torch.uint8).numpy().tobytes() for tensor in tensors]


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_one_and_two_stages_leave_the_same_bytes_in_the_partials(target: Target, head_dim: int) -> None:
    single, double = both_stages(head_dim)
    compared = 0
    for kv_len in KV_LENS:
        for batch in (1, 3):
            lens = (kv_len,) if batch == 1 else (kv_len * 2 // 3, kv_len, kv_len // 7)
            # one split; splits that end inside a tile; more splits than tiles, so that some are empty
            for num_splits in (1, 3, 24):
                case = DecodeCase(lens, num_kv_heads=2, group=3, num_splits=num_splits, slack=5)
                assert memory_of(target, single, case) == memory_of(target, double, case), case.id
                compared += 1
    assert compared == 60


def test_options_and_long_queries_leave_the_same_bytes_too(target: Target) -> None:
    single, double = both_stages(64)
    plain = DecodeCase((90, 41), num_kv_heads=2, group=5, qo_len=4, num_splits=3, slack=3, causal=True)
    for case in (plain, replace(plain, window=20), replace(plain, softcap=5.0), replace(plain, mask="heads")):
        assert memory_of(target, single, case) == memory_of(target, double, case), case.id


@pytest.mark.parametrize("stages", [1, 2])
def test_every_group_is_right(target: Target, stages: int) -> None:
    cases = tuple(
        DecodeCase((97, 30), num_kv_heads=2, group=group, qo_len=qo_len, num_splits=2, slack=1, causal=True)
        for group in GROUPS
        for qo_len in (1, 3)
    )
    result = run_variant(target, Selection(both_stages(64)[stages - 1], cases))
    assert [f"{failure.case_id}: {failure.message}" for failure in result.failures] == []
    assert result.cases_run == 2 * len(GROUPS)


def tensors(kv_len: int = 1100, group: int = 2) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    q, k, v = (
        torch.randn(1, length, heads, 64, generator=generator).bfloat16()
        for length, heads in ((1, group), (kv_len, 1), (kv_len, 1))
    )
    return q, k, v


def planned(**options: Any) -> Any:
    return ops.decode(*tensors(), library=emulator(), kernel="fa_split_gqa", explain=True, **options)


def test_fapipe_selects_the_pipeline_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    assert planned().variant == "fa_split_gqa.bf16.d64"
    assert planned(flags={"FAPIPE": 0}).variant == "fa_split_gqa.bf16.d64.s1"
    for value, name in (("0", "fa_split_gqa.bf16.d64.s1"), ("1", "fa_split_gqa.bf16.d64")):
        monkeypatch.setenv("SPARKCTL_FLAG_FAPIPE", value)
        assert planned().variant == name
        assert f"FAPIPE={value} (the environment)" in planned().reason
    assert planned(flags={"FAPIPE": 0}).variant == "fa_split_gqa.bf16.d64.s1"


def test_both_arms_of_fapipe_give_the_same_bits() -> None:
    q, k, v = tensors(200)
    options: dict[str, Any] = {"library": emulator(), "kernel": "fa_split_gqa", "num_splits": 4}
    one, other = (ops.decode(q, k, v, flags={"FAPIPE": value}, **options) for value in (0, 1))
    assert torch.equal(one.view(torch.int16), other.view(torch.int16))


def test_without_tensor_cores_long_context_gqa_runs_it_and_the_plan_says_why(tmp_path: Path) -> None:
    # a library of its own: the project's holds whatever else was built
    options: dict[str, Any] = {"arch": DEFAULT_ARCH, "backend": "emulator", "build_root": tmp_path}
    library = load_library(ensure_built(REGISTRY, without_tensor_cores(), **options))

    def plan(kv_len: int, group: int) -> Any:
        return ops.decode(*tensors(kv_len, group), library=library, explain=True)

    chosen = plan(1100, 2)
    assert chosen.variant == "fa_split_gqa.bf16.d64"
    assert "group 2 over 1100 keys: the long-context GQA path" in str(chosen)
    assert plan(1000, 2).variant == "attn_decode_split_kv.bf16.d64"
    assert plan(1100, 1).variant == "attn_decode_split_kv.bf16.d64"
