"""Paged decode over any table equals contiguous decode bit for bit: the partials, out and lse."""

from __future__ import annotations

import pytest
import torch

from sparkctl import ops
from sparkctl.build import DEFAULT_ARCH, ensure_built
from sparkctl.registry import find_project, load_registry, select_variants
from sparkctl.runtime import Library, load_library

KERNELS = ["attn_decode_*", "attn_paged_decode_*", "fa_split_gqa", "attn_combine"]
# The variants over contiguous and over paged keys.
PAIRS = {
    "split_kv": ("attn_decode_split_kv.bf16.d64", "attn_paged_decode_split_kv.bf16.d64"),
    "split_kv_mma": ("attn_decode_split_kv_mma.bf16.d64", "attn_paged_decode_split_kv_mma.bf16.d64"),
    "split_gqa": ("fa_split_gqa.bf16.d64", "fa_split_gqa.bf16.d64.p1"),
    "split_gqa.s1": ("fa_split_gqa.bf16.d64.s1", "fa_split_gqa.bf16.d64.s1.p1"),
}
CHOSEN = {"head_dim": ["64"], "dtype": ["bf16"], "stages": ["1", "2"]}
LENS = (0, 100, 97)


@pytest.fixture(scope="module")
def library() -> Library:
    registry = load_registry(find_project() / "flags.yaml")
    variants = select_variants(registry, KERNELS, arch=DEFAULT_ARCH, where=CHOSEN)
    return load_library(ensure_built(registry, variants, arch=DEFAULT_ARCH, backend="emulator"))


@pytest.mark.parametrize("family", sorted(PAIRS))
@pytest.mark.parametrize("page_size", [1, 8, 16, 24, 48, 64, 256])
@pytest.mark.parametrize("shuffled", [False, True])
def test_pages_change_no_bit(library: Library, family: str, page_size: int, shuffled: bool) -> None:
    generator = torch.Generator().manual_seed(5)
    entries = -(-max(LENS) // page_size)
    count = len(LENS) * entries
    order = torch.randperm(count, generator=generator) if shuffled else torch.arange(count)
    table = order.view(len(LENS), entries).int()
    q = torch.randn(3, 2, 12, 64, generator=generator).bfloat16()
    pages = [torch.randn(count, page_size, 2, 64, generator=generator).bfloat16() for _ in range(2)]
    k, v = (tensor[table.long()].flatten(1, 2).contiguous() for tensor in pages)
    kv_lens = torch.tensor(LENS, dtype=torch.int32)
    spaces = [ops.allocate_workspace(q, 3) for _ in range(2)]
    for space in spaces:
        for part in (space.part_acc, space.part_max, space.part_sum):
            part.fill_(float("nan"))
    options = {"causal": True, "return_lse": True, "library": library}
    contiguous = ops.decode(q, k, v, kv_lens=kv_lens, variant=PAIRS[family][0], workspace=spaces[0], **options)
    paged = ops.paged_decode(q, *pages, table, kv_lens, variant=PAIRS[family][1], workspace=spaces[1], **options)
    for one, other in zip(contiguous, paged, strict=True):
        assert torch.equal(one, other)
    for name in ("part_acc", "part_max", "part_sum"):
        assert torch.equal(getattr(spaces[0], name), getattr(spaces[1], name))
