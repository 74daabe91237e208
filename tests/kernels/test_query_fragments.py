"""attn_decode_split_kv_mma with Q's fragments reloaded for every tile: the bits of the resident ones."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from sparkctl.build import DEFAULT_ARCH, ensure_built
from sparkctl.registry import find_project, load_registry, select_variants
from sparkctl.runtime import Library, load_library
from sparkctl.testing import prepare
from sparkctl.testing.model import DecodeCase
from sparkctl.testing.prepare import Target

REGISTRY = load_registry(find_project(None) / "flags.yaml")
RESIDENT = "attn_decode_split_kv_mma.bf16.d64"  # 8 rows a CTA
RELOAD = f"{RESIDENT}.reload.r16"
CASES = (
    DecodeCase((300,), num_kv_heads=2, group=4, num_splits=2),  # several warps, odd numbers of tiles
    DecodeCase((129, 0, 70), group=5, qo_len=4, num_splits=3, causal=True, slack=3),  # a second pass of four rows
    DecodeCase((65,), group=1, layout="fused"),  # strided q, fifteen rows of padding
)


@cache
def emulator() -> Library:
    variants = select_variants(REGISTRY, [RESIDENT, RELOAD, "attn_combine.bf16.d64"])
    return load_library(ensure_built(REGISTRY, variants, arch=DEFAULT_ARCH, backend="emulator"))


def memory_of(name: str, case: DecodeCase) -> list[bytes]:
    outputs = prepare.prepare_decode(Target(emulator(), "cpu"), select_variants(REGISTRY, [name])[0], case).call()
    assert outputs.lse is not None
    tensors = [outputs.out.view, outputs.lse.view, *(part.view for part in outputs.partials)]
    return [tensor.contiguous().view(torch.uint8).numpy().tobytes() for tensor in tensors]


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_reloading_the_query_changes_no_bit(case: DecodeCase) -> None:
    emulator().configure_emulator()
    assert memory_of(RELOAD, case) == memory_of(RESIDENT, case)
