"""Checks that hold for every backend; each failure names the argument, its value and what is accepted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sparkctl.ops.overlap import check_no_overlap

if TYPE_CHECKING:
    import torch

Q_AXES = "[batch, qo_len, num_qo_heads, head_dim]"
MAX_SPLITS = 65535  # of a grid, CUDA C++ Programming Guide, compute capabilities: y and z
DTYPE_NAMES = {"torch.bfloat16": "bf16", "torch.float16": "fp16"}


def check_tensor(name: str, value: Any) -> torch.Tensor:
    """A dense torch tensor outside autograd: TypeError for anything else, ValueError for one that requires grad."""
    import torch

    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name} is {type(value).__name__}, accepted is torch.Tensor")
    if value.is_nested:
        raise TypeError(f"{name} is a nested tensor, accepted is torch.Tensor of one shape")
    if value.layout is not torch.strided:
        raise TypeError(f"{name} has layout {value.layout}, accepted is torch.strided")
    check_gradient(name, value)
    return value


def check_gradient(name: str, tensor: torch.Tensor) -> None:
    """ValueError for a tensor that autograd would want a gradient of."""
    import torch

    if tensor.requires_grad and torch.is_grad_enabled():
        raise ValueError(f"{name} requires grad, accepted is inference only: use torch.no_grad() or .detach()")


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
    check_device(name, tensor, other_name, other)


def check_device(name: str, tensor: torch.Tensor, other_name: str, other: torch.Tensor) -> None:
    """ValueError unless two tensors lie on one device."""
    if tensor.device != other.device:
        raise ValueError(f"{name} is on {tensor.device}, accepted is the device of {other_name}: {other.device}")


def check_query(q: Any, out: Any, lse: Any = None) -> str:
    """q's dtype in the registry's words, after the checks of q and of a given out and lse."""
    check_tensor("q", q)
    check_rank("q", q, 4, Q_AXES)
    return check_rows(q, out, lse)


def check_rows(q: torch.Tensor, out: Any, lse: Any) -> str:
    """check_query for a q whose rank is right."""
    dtype = check_dtype("q", q)
    if q.shape[-1] < 1:
        raise ValueError("head_dim is 0, accepted is 1 or more")
    if out is not None:
        check_tensor("out", out)
        check_shape("out", out, tuple(q.shape), "as q")
        check_same("out", out, "q", q)
        check_no_overlap("out", out)
    if lse is not None:
        import torch

        check_output("lse", lse, q.shape[:-1], torch.float32, q.device)
    return dtype


def check_output(name: str, value: Any, shape: Sequence[int], dtype: Any, device: Any) -> None:
    """A tensor to be written to: TypeError or ValueError unless it has this shape, dtype and device."""
    check_tensor(name, value)
    check_shape(name, value, shape, "as the result")
    if value.dtype != dtype:
        raise TypeError(f"{name} has dtype {value.dtype}, accepted is that of the result: {dtype}")
    if value.device != device:
        raise ValueError(f"{name} is on {value.device}, accepted is the device of the others: {device}")
    check_no_overlap(name, value)


def check_heads(num_qo_heads: int, num_kv_heads: int) -> None:
    """ValueError unless every kv head serves the same number of query heads."""
    if num_kv_heads < 1 or num_qo_heads < 1 or num_qo_heads % num_kv_heads:
        raise ValueError(f"num_qo_heads is {num_qo_heads}, accepted is a multiple of num_kv_heads ({num_kv_heads})")


def check_int32(name: str, value: Any, q: torch.Tensor) -> None:
    """An int32 tensor on q's device."""
    check_tensor(name, value)
    if str(value.dtype) != "torch.int32":
        raise TypeError(f"{name} has dtype {value.dtype}, accepted is torch.int32")
    check_device(name, value, "q", q)


def check_kv_lens(kv_lens: Any, q: torch.Tensor, batch: int, kv_len: int, what: str) -> None:
    """int32 [batch]; on the CPU every value in 0 … kv_len, on a device none is read."""
    check_tensor("kv_lens", kv_lens)
    check_shape("kv_lens", kv_lens, (batch,), "[batch]")
    check_int32("kv_lens", kv_lens, q)
    on_cpu = kv_lens.device.type == "cpu" and batch > 0
    if on_cpu and not 0 <= int(kv_lens.min()) <= int(kv_lens.max()) <= kv_len:
        raise ValueError(f"kv_lens is {kv_lens.tolist()}, accepted is 0 to {kv_len}, {what}")


def check_bool(name: str, value: Any) -> None:
    """TypeError unless the value is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}, accepted are True and False")


def check_float(name: str, value: Any) -> float:
    """A finite number as float; TypeError or ValueError for anything else."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}, accepted is a number")
    try:
        number = float(value)
    except OverflowError:  # of a whole number
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{name} is {number}, accepted is a finite number")
    return number


def check_int(name: str, value: Any) -> None:
    """TypeError unless the value is a whole number or None."""
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise TypeError(f"{name} is {value!r}, accepted is a whole number or None")


def check_count(name: str, value: Any, least: int = 1) -> None:
    """TypeError unless the value is a whole number, ValueError unless it is `least` or more."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}, accepted is a whole number")
    if value < least:
        raise ValueError(f"{name} is {value}, accepted is {least} or more")


def check_splits(num_splits: int) -> None:
    """ValueError unless a grid has room for the splits."""
    if not 1 <= num_splits <= MAX_SPLITS:
        raise ValueError(f"num_splits is {num_splits}, accepted is 1 to {MAX_SPLITS}")


def check_plan(
    num_splits: int | None, max_kv_len: int | None, total_kv_len: int | None, batch: int, kv_len: int, what: str
) -> int:
    """The length that splits are planned for, after the checks of what they are planned by."""
    check_int("num_splits", num_splits)
    check_int("max_kv_len", max_kv_len)
    check_int("total_kv_len", total_kv_len)
    if num_splits is not None:
        check_splits(num_splits)
    if max_kv_len is not None and not 0 <= max_kv_len <= kv_len:
        raise ValueError(f"max_kv_len is {max_kv_len}, accepted is 0 to {kv_len}, {what}")
    planned = kv_len if max_kv_len is None else max_kv_len
    if total_kv_len is not None and not 0 <= total_kv_len <= batch * planned:
        raise ValueError(
            f"total_kv_len is {total_kv_len}, accepted is 0 to {batch * planned}, {batch} sequences of {planned} keys"
        )
    return planned
