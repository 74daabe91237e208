"""The tolerance rule: how far a kernel's output may lie from the fp64 reference, and where it lies furthest.

Every query row is judged by itself, so that long rows with small values do not hide behind short ones. A row's largest
error may be at most twice the plain emulation's largest in that row plus one ulp of the row's largest value, and its
relative L2 error at most REL_L2; lse may be off by LSE_ERROR. NaN never passes, and a row whose reference is all zero
(no visible key) must be exactly zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

REL_L2 = {"bf16": 5e-3, "fp16": 1e-3}
LSE_ERROR = 1e-3
MANTISSA_BITS = {"bf16": 7, "fp16": 10}
MIN_EXPONENT = {"bf16": -126, "fp16": -14}


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The worst place of an output that is out of tolerance."""

    what: str  # "out" or "lse"
    position: tuple[int, ...]  # (batch, qo, head, dim), for lse without dim
    got: float
    expected: float
    error: float  # what was compared: an absolute error or a relative L2 one
    allowed: float
    rule: str

    def __str__(self) -> str:
        names = ("batch", "qo", "head", "dim")
        place = ", ".join(f"{name} {index}" for name, index in zip(names, self.position, strict=False))
        return (
            f"{self.what} at {place}: got {self.got:.7g}, expected {self.expected:.7g}; "
            f"{self.rule} {self.error:.3g}, allowed {self.allowed:.3g}"
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """`worst` is the largest error relative to what is allowed: above 1 the output is wrong."""

    worst: float
    mismatch: Mismatch | None


def compare_outputs(
    out: Tensor,
    lse: Tensor | None,
    *,
    expected_out: Tensor,
    expected_lse: Tensor,
    plain_out: Tensor,
    dtype: str,
) -> Comparison:
    """Judge out `[batch, qo_len, heads, head_dim]` and lse `[batch, qo_len, heads]`; waits for the device once."""
    import torch

    if out.shape != expected_out.shape or (lse is not None and lse.shape != expected_lse.shape):
        raise ValueError(f"shapes differ: out {tuple(out.shape)}, expected {tuple(expected_out.shape)}")
    if out.numel() == 0:
        return Comparison(0.0, None)
    error = absolute_error(out, expected_out)
    allowed = allowed_error(expected_out, plain_out, dtype)
    row_l2 = relative_l2(error, expected_out)
    checks = {
        "error": relative(error.amax(-1), allowed),
        "relative L2 error": relative(row_l2, torch.full_like(row_l2, REL_L2[dtype])),
    }
    if lse is not None:
        lse_error = absolute_error(lse, expected_lse)
        checks["lse error"] = relative(lse_error, torch.full_like(lse_error, LSE_ERROR))
    worst = torch.stack([ratio.amax() for ratio in checks.values()]).tolist()
    rule, ratio = max(zip(checks, worst, strict=True), key=lambda item: item[1])
    if ratio <= 1:
        return Comparison(ratio, None)
    row = index_of(checks[rule])
    if rule == "lse error":
        assert lse is not None
        return Comparison(ratio, mismatch("lse", row, lse, expected_lse, float(lse_error[row]), LSE_ERROR, rule))
    position = (*row, int(error[row].argmax()))
    pair = (error, allowed) if rule == "error" else (row_l2, torch.full_like(row_l2, REL_L2[dtype]))
    measured = float(pair[0][position] if rule == "error" else pair[0][row])
    return Comparison(ratio, mismatch("out", position, out, expected_out, measured, float(pair[1][row]), rule))


def absolute_error(got: Tensor, expected: Tensor) -> Tensor:
    """|got − expected| in fp64; equal infinities differ by 0, NaN by infinity."""
    import torch

    got = got.double()
    error = torch.where(got == expected, 0.0, (got - expected).abs())
    return torch.where(error.isnan(), math.inf, error)


def allowed_error(expected: Tensor, plain: Tensor, dtype: str) -> Tensor:
    """What each row `[batch, qo_len, heads]` may be off by: twice the plain emulation's error and one ulp."""
    plain_error = (plain.double() - expected).abs().amax(-1)
    return 2 * plain_error + ulp(expected.abs().amax(-1), dtype)


def ulp(value: Tensor, dtype: str) -> Tensor:
    """The spacing of `dtype`'s numbers at |value| (fp64 tensor); 0 at 0, where nothing may be off."""
    import torch

    exponent = torch.frexp(value)[1] - 1
    spacing = torch.ldexp(torch.ones_like(value), exponent.clamp(min=MIN_EXPONENT[dtype]) - MANTISSA_BITS[dtype])
    return torch.where(value == 0, 0.0, spacing)


def relative_l2(error: Tensor, expected: Tensor) -> Tensor:
    """|error| / |expected| of each row; 0 where both are 0."""
    return relative(error.square().sum(-1).sqrt(), expected.square().sum(-1).sqrt())


def relative(error: Tensor, allowed: Tensor) -> Tensor:
    """error / allowed, where 0 of 0 is 0, more than 0 of 0 infinite, and NaN infinite."""
    import torch

    ratio = torch.where(error == 0, 0.0, error / allowed)
    return torch.where(ratio.isnan(), math.inf, ratio)


def index_of(ratio: Tensor) -> tuple[int, ...]:
    """The position of the largest value."""
    import torch

    return tuple(int(i) for i in torch.unravel_index(ratio.argmax(), ratio.shape))


def mismatch(
    what: str, position: tuple[int, ...], got: Tensor, expected: Tensor, error: float, allowed: float, rule: str
) -> Mismatch:
    return Mismatch(what, position, float(got[position]), float(expected[position]), error, allowed, rule)
