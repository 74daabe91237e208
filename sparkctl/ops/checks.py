"""Checks that hold for every backend; each failure names the argument, its value and what is accepted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

DTYPE_NAMES = {"torch.bfloat16": "bf16", "torch.float16": "fp16"}


def check_tensor(name: str, value: Any) -> torch.Tensor:
    """A torch tensor outside autograd: TypeError for anything else, ValueError for one that requires grad."""
    import torch

    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name} is {type(value).__name__}, accepted is torch.Tensor")
    if value.requires_grad and torch.is_grad_enabled():
        raise ValueError(f"{name} requires grad, accepted is inference only: use torch.no_grad() or .detach()")
    return value


def check_shape(name: str, tensor: torch.Tensor, shape: Sequence[int], axes: str) -> None:
    """ValueError unless the tensor has exactly this shape."""
    if tuple(tensor.shape) != tuple(shape):
        raise ValueError(f"{name} has shape {list(tensor.shape)}, accepted is {list(shape)} {axes}")


def check_rank(name: str, tensor: torch.Tensor, rank: int, axes: str) -> None:
    """ValueError unless the tensor has this many axes."""
    if tensor.dim() != rank:
        raise ValueError(f"{name} has shape {list(tensor.shape)}, accepted is rank {rank} {axes}")


def check_dtype(name: str, tensor: torch.Tensor) -> str:
    """The registry's name of a 16-bit float dtype; TypeError for any other."""
    dtype = DTYPE_NAMES.get(str(tensor.dtype))
    if dtype is None:
        accepted = ", ".join(DTYPE_NAMES)
        raise TypeError(f"{name} has dtype {tensor.dtype}, accepted are {accepted}")
    return dtype


def check_same(name: str, tensor: torch.Tensor, other_name: str, other: torch.Tensor) -> None:
    """TypeError or ValueError unless two tensors agree in dtype and device."""
    if tensor.dtype != other.dtype:
        raise TypeError(f"{name} has dtype {tensor.dtype}, accepted is that of {other_name}: {other.dtype}")
    if tensor.device != other.device:
        raise ValueError(f"{name} is on {tensor.device}, accepted is the device of {other_name}: {other.device}")
