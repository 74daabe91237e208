"""Inputs of right calls, for the tests that make them wrong: of the operators, and of the C++ entries behind them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch

from sparkctl.build import DEFAULT_ARCH, ensure_built
from sparkctl.registry import find_project, load_registry, select_variants
from sparkctl.runtime import Library, load_library

BF16 = torch.bfloat16
INT32 = torch.int32

# Changes of a right call's arguments, the error's type, and the whole of its text.
Row = tuple[dict[str, Any], type[Exception], str]
KERNELS = (
    "attn_decode_split_kv",
    "attn_decode_split_kv_mma",
    "attn_paged_decode_split_kv",
    "attn_paged_decode_split_kv_mma",
    "attn_combine",
)


def build_library(folder: Path) -> Library:
    """The decode kernels of bf16 and head_dim 64 and nothing else: errors list what is built."""
    registry = load_registry(find_project() / "flags.yaml")
    chosen = {"head_dim": ["64"], "dtype": ["bf16"], "stages": ["2"]}
    variants = select_variants(registry, KERNELS, arch=DEFAULT_ARCH, where=chosen)
    built = ensure_built(registry, variants, arch=DEFAULT_ARCH, backend="emulator", build_root=folder)
    return load_library(built)


def zeros(*shape: int, dtype: torch.dtype = BF16, device: str = "cpu") -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype, device=device)


def shows(*shape: int, device: str = "cpu") -> torch.Tensor:
    return torch.ones(shape, dtype=torch.bool, device=device)


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=INT32)


def every_second(tensor: torch.Tensor) -> torch.Tensor:
    """A view whose last stride is 2."""
    return tensor[..., ::2]


def shifted(*shape: int) -> torch.Tensor:
    """A tensor that starts 2 bytes past a multiple of 16."""
    return zeros(math.prod(shape) + 8)[1 : 1 + math.prod(shape)].view(shape)


def narrow(*shape: int) -> torch.Tensor:
    """A tensor whose rows of head_dim lie 8 bytes too far apart."""
    return zeros(*shape[:-1], shape[-1] + 4)[..., : shape[-1]]


def decode_inputs() -> dict[str, Any]:
    return {"q": zeros(2, 1, 8, 64), "k": zeros(2, 20, 2, 64), "v": zeros(2, 20, 2, 64)}


def paged_inputs() -> dict[str, Any]:
    return {
        "q": zeros(2, 1, 8, 64),
        "k_pages": zeros(5, 8, 2, 64),
        "v_pages": zeros(5, 8, 2, 64),
        "page_table": ints(4, 1, 3, 2, 0, 0).view(2, 3),
        "kv_lens": ints(20, 7),
    }


def combine_inputs() -> dict[str, Any]:
    return {"part_acc": fp32(2, 1, 8, 3, 64), "part_max": fp32(2, 1, 8, 3), "part_sum": fp32(2, 1, 8, 3), "dtype": BF16}


def fp32(*shape: int, device: str = "cpu") -> torch.Tensor:
    return torch.zeros(shape, device=device)


def entry_inputs(heads: int = 8, qo_len: int = 1, head_dim: int = 64, splits: int = 2) -> dict[str, Any]:
    """The C++ entries' tensors for a query of this shape, by name."""
    return {
        "q": zeros(2, qo_len, heads, head_dim),
        "k": zeros(2, 20, 2, head_dim),
        "v": zeros(2, 20, 2, head_dim),
        "kv_lens": ints(20, 7),
        "out": zeros(2, qo_len, heads, head_dim),
        "lse": fp32(2, qo_len, heads),
        "part_acc": fp32(2, qo_len, heads, splits, head_dim),
        "part_max": fp32(2, qo_len, heads, splits),
        "part_sum": fp32(2, qo_len, heads, splits),
    }


OPTIONS = {"scale": 0.125, "causal": False, "window": -1, "softcap": 0.0, "mask": None, "sinks": None}


def decode_entry(library: Library, **changes: Any) -> None:
    """decode as C++ sees it, past every check in Python."""
    chosen = {
        "variant": library.index["attn_decode_split_kv.bf16.d64"],
        "combine": library.index["attn_combine.bf16.d64"],
    }
    library.function("decode")(*{**chosen, **entry_inputs(), **OPTIONS, **changes}.values())


def paged_entry(library: Library, **changes: Any) -> None:
    variant = library.index["attn_paged_decode_split_kv.bf16.d64"]
    rest = {name: value for name, value in entry_inputs().items() if name not in ("q", "k", "v", "kv_lens")}
    chosen = {"variant": variant, "combine": library.index["attn_combine.bf16.d64"]}
    library.function("paged_decode")(*{**chosen, **paged_inputs(), **rest, **OPTIONS, **changes}.values())


def combine_entry(library: Library, **changes: Any) -> None:
    args = {name: entry_inputs()[name] for name in ("part_acc", "part_max", "part_sum", "out", "lse")}
    chosen = {"variant": library.index["attn_combine.bf16.d64"]}
    library.function("combine")(*{**chosen, **args, "sinks": None, **changes}.values())
