"""What the operators refuse once a library is there: forced choices, outputs that overlap, odd devices."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from sparkctl import ops
from sparkctl.build import DEFAULT_ARCH, ensure_built
from sparkctl.registry import find_project, load_registry, select_variants
from sparkctl.runtime import Library, load_library

CHOSEN = {"head_dim": ["64"], "dtype": ["bf16"]}


@pytest.fixture(scope="module")
def library() -> Library:
    registry = load_registry(find_project() / "flags.yaml")
    kernels = ["attn_decode_split_kv", "attn_combine"]
    variants = select_variants(registry, kernels, arch=DEFAULT_ARCH, where=CHOSEN)
    return load_library(ensure_built(registry, variants, arch=DEFAULT_ARCH, backend="emulator"))


def call(library: Library, **changes: Any) -> Any:
    q = torch.randn(1, 1, 8, 64).bfloat16()
    k = torch.randn(1, 20, 2, 64).bfloat16()
    return ops.decode(**{"q": q, "k": k, "v": k, "library": library, "backend": "emulator", **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kernel": "attn_combine"}, "kernel is 'attn_combine', accepted are auto, attn_decode_split_kv_mma"),
        ({"kernel": "zz"}, "kernel is 'zz', accepted are auto"),
        ({"variant": "attn_combine.bf16.d64"}, "of family combine, accepted is one of family decode"),
        (
            {"variant": "attn_decode_split_kv.bf16.d64", "kernel": "attn_decode_split_kv_mma"},
            "not a variant of the kernel attn_decode_split_kv_mma",
        ),
        ({"q": torch.zeros(1, 1, 130, 64, dtype=torch.bfloat16)}, "head_dim 64, group 1 to 64"),
        ({"out": torch.zeros(1, 1, 1, 64, dtype=torch.bfloat16).expand(1, 1, 8, 64)}, "out has elements that share"),
        (
            {"out": torch.zeros(600, dtype=torch.bfloat16).as_strided((1, 1, 8, 64), (512, 512, 32, 1))},
            "out has elements that share memory",
        ),
    ],
)
def test_a_choice_that_cannot_be_is_a_value_error_that_names_it(
    library: Library, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        call(library, **changes)
    assert message in str(caught.value)


def test_tensors_without_memory_are_refused(library: Library) -> None:
    q = torch.zeros(1, 1, 8, 64, dtype=torch.bfloat16, device="meta")
    k = torch.zeros(1, 20, 2, 64, dtype=torch.bfloat16, device="meta")
    with pytest.raises(ValueError, match="q is on meta, accepted are CUDA devices and the CPU"):
        call(library, q=q, k=k, v=k)


def test_combine_names_what_it_refuses_and_takes_no_rows(library: Library) -> None:
    parts = (torch.zeros(1, 1, 0, 2, 64), torch.zeros(1, 1, 0, 2), torch.zeros(1, 1, 0, 2))
    out, lse = ops.combine(*parts, dtype=torch.bfloat16, library=library)
    assert (out.numel(), lse.numel()) == (0, 0)
    with pytest.raises(TypeError, match=r"dtype is 'bf16', accepted are torch.bfloat16"):
        ops.combine(*parts, dtype="bf16", library=library)  # type: ignore[arg-type]


def test_an_uncaught_error_carries_its_hint(library: Library) -> None:
    parts = (torch.zeros(1, 1, 4, 2, 48), torch.zeros(1, 1, 4, 2), torch.zeros(1, 1, 4, 2))
    with pytest.raises(
        Exception,
        match=r"head_dim 48; built for bf16 are .*sparkctl build attn_combine --arch sm_90 --backend emulator",
    ):
        ops.combine(*parts, dtype=torch.bfloat16, library=load_library(library.folder))
