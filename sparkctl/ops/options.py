"""What every attention operator takes beside its tensors: scale, masks, soft-cap and sinks, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparkctl.ops import checks

if TYPE_CHECKING:
    import torch

NO_WINDOW = -1  # as the kernels are told
LONGEST = 2**30  # keys of a sequence, as flags.yaml accepts them
SCALES = (1e-30, 1e30)  # past it what kernels make of the scale, alone or with a soft-cap, leaves fp32
SOFTCAPS = (1e-3, 1e4)  # past it cap * tanh(score / cap) in fp32 is off by more than 1e-3, or nothing
MASK_AXES = "[qo_len, kv_len], [batch, 1 or qo_len, kv_len] or [batch, 1 or num_qo_heads, 1 or qo_len, kv_len]"


@dataclass(frozen=True, slots=True)
class AttentionOptions:
    """Which scores count how. `mask` is bool [batch, num_qo_heads, qo_len, kv_len], broadcast axes having stride 0."""

    scale: float
    causal: bool = False
    window: int | None = None
    softcap: float | None = None
    mask: torch.Tensor | None = None
    sinks: torch.Tensor | None = None  # fp32 [num_qo_heads]

    def arguments(self) -> tuple[Any, ...]:
        """As the C++ entries take them, behind the tensors."""
        window = NO_WINDOW if self.window is None else self.window
        return (self.scale, self.causal, window, self.softcap or 0.0, self.mask, self.sinks)


def check_options(
    q: torch.Tensor,
    mask_shape: tuple[int, int, int, int],
    *,
    scale: float | None,
    causal: bool,
    window: int | None,
    softcap: float | None,
    mask: Any,
    sinks: Any,
) -> AttentionOptions:
    """The options after their checks; `scale` None is 1/sqrt(head_dim).

    mask_shape is (batch, num_qo_heads, qo_len, kv_len): what a mask must broadcast to. TypeError or ValueError names
    the argument.
    """
    checks.check_bool("causal", causal)
    checks.check_int("window", window)
    if window is not None and window < 0:
        raise ValueError(f"window is {window}, accepted is 0 or more, or None for no window")
    if window is not None:
        window = min(window, LONGEST)  # hides nothing, and lengths less it still fit 32 bits
    scale = q.shape[-1] ** -0.5 if scale is None else checks.check_float("scale", scale)
    if scale != 0 and not SCALES[0] <= abs(scale) <= SCALES[1]:
        raise ValueError(f"scale is {scale}, accepted is 0, or {SCALES[0]} to {SCALES[1]} with either sign")
    if softcap is not None and not checks.check_float("softcap", softcap) > 0:
        raise ValueError(f"softcap is {softcap}, accepted is more than 0, or None for no cap")
    if softcap is not None and not SOFTCAPS[0] <= softcap <= SOFTCAPS[1]:
        raise ValueError(f"softcap is {softcap}, accepted is {SOFTCAPS[0]} to {SOFTCAPS[1]}, or None for no cap")
    if mask is not None:
        mask = broadcast_mask(mask, mask_shape, q)
    if sinks is not None:
        check_sinks(sinks, mask_shape[1], q)
    return AttentionOptions(scale, causal, window, None if softcap is None else float(softcap), mask, sinks)


def check_sinks(sinks: Any, num_qo_heads: int, like: torch.Tensor, like_name: str = "q") -> None:
    """float32 [num_qo_heads], contiguous, on the device of the others."""
    checks.check_tensor("sinks", sinks)
    checks.check_shape("sinks", sinks, (num_qo_heads,), "[num_qo_heads]")
    if str(sinks.dtype) != "torch.float32":
        raise TypeError(f"sinks has dtype {sinks.dtype}, accepted is torch.float32")
    checks.check_device("sinks", sinks, like_name, like)


def broadcast_mask(mask: Any, shape: tuple[int, int, int, int], q: torch.Tensor) -> torch.Tensor:
    """A boolean mask of rank 2, 3 or 4 as a view of `shape` [batch, num_qo_heads, qo_len, kv_len]."""
    checks.check_tensor("mask", mask)
    if str(mask.dtype) != "torch.bool":
        raise TypeError(f"mask has dtype {mask.dtype}, accepted is torch.bool (True: visible)")
    checks.check_device("mask", mask, "q", q)
    if mask.dim() not in (2, 3, 4):
        raise ValueError(f"mask has shape {list(mask.shape)}, accepted is rank 2, 3 or 4: {MASK_AXES}")
    batch, heads, qo_len, kv_len = shape
    accepted: tuple[tuple[int, ...], ...] = {
        2: ((qo_len,), (kv_len,)),
        3: ((batch,), (1, qo_len), (kv_len,)),
        4: ((batch,), (1, heads), (1, qo_len), (kv_len,)),
    }[mask.dim()]
    if any(size not in sizes for size, sizes in zip(mask.shape, accepted, strict=True)):
        wanted = ", ".join(" or ".join(map(str, dict.fromkeys(sizes))) for sizes in accepted)
        raise ValueError(f"mask has shape {list(mask.shape)}, accepted is [{wanted}]: {MASK_AXES}")
    if mask.shape[-1] > 1 and mask.stride(-1) != 1:
        raise ValueError(f"mask has last stride {mask.stride(-1)}, accepted is 1")
    rank4 = mask if mask.dim() == 4 else mask.unsqueeze(-3)
    view: torch.Tensor = rank4.expand(shape)
    return view


def visible_length(kv_len: int, qo_len: int, window: int | None) -> int:
    """Keys that some query of a call may see, of a sequence of kv_len: what decode has to split."""
    return kv_len if window is None else min(kv_len, qo_len + window)
