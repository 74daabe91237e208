"""The tensors of a prefill call, checked: contiguous, packed (ragged) or paged, and the shape that follows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sparkctl.ops import checks
from sparkctl.ops.prefill_plan import PrefillShape

if TYPE_CHECKING:
    import torch

PACKED_Q_AXES = "[total_qo, num_qo_heads, head_dim], as qo_indptr is given"
KV_AXES = "[batch, kv_len, num_kv_heads, head_dim]"
PACKED_KV_AXES = "[total_kv, num_kv_heads, head_dim], as kv_indptr is given"
PAGE_AXES = "[num_pages, page_size, num_kv_heads, head_dim], as page_table is given"


@dataclass(frozen=True, slots=True)
class PrefillInputs:
    """What the kernel reads, in the order of its entry."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    page_table: torch.Tensor | None = None
    kv_lens: torch.Tensor | None = None
    qo_indptr: torch.Tensor | None = None
    kv_indptr: torch.Tensor | None = None

    def arguments(self) -> tuple[torch.Tensor | None, ...]:
        """As PrefillCall.run and the C++ entry take them."""
        return (self.q, self.k, self.v, self.page_table, self.kv_lens, self.qo_indptr, self.kv_indptr)

    def named(self) -> list[tuple[str, torch.Tensor | None]]:
        """The same with their names."""
        names = ("q", "k", "v", "page_table", "kv_lens", "qo_indptr", "kv_indptr")
        return list(zip(names, self.arguments(), strict=True))


def check_inputs(inputs: PrefillInputs, max_qo_len: int | None, out: Any, lse: Any = None) -> PrefillShape:
    """The call's shape; TypeError or ValueError names the argument, its value and what is accepted."""
    q, k, v = inputs.q, inputs.k, inputs.v
    dtype = _check_query(q, inputs.qo_indptr, out, lse)
    for name, tensor in (("k", k), ("v", v)):
        checks.check_tensor(name, tensor)
    num_qo_heads, head_dim = q.shape[-2:]
    checks.check_int("max_qo_len", max_qo_len)
    if inputs.qo_indptr is None:
        batch, qo_len = q.shape[:2]
        if max_qo_len not in (None, qo_len):
            raise ValueError(f"max_qo_len is {max_qo_len}, accepted is the length of q, {qo_len}, or None")
    else:
        batch = inputs.qo_indptr.shape[0] - 1
        qo_len = _longest_query(inputs.qo_indptr, max_qo_len, q.shape[0])
    kv_len, page_size = _check_kv(inputs, batch, head_dim)
    checks.check_shape("v", v, tuple(k.shape), "as k")
    for name, tensor in (("k", k), ("v", v)):
        checks.check_same(name, tensor, "q", q)
    checks.check_heads(num_qo_heads, k.shape[-2])
    ragged = inputs.qo_indptr is not None
    return PrefillShape(batch, qo_len, num_qo_heads, k.shape[-2], head_dim, kv_len, dtype, page_size, ragged)


def _check_query(q: Any, qo_indptr: Any, out: Any, lse: Any) -> str:
    checks.check_tensor("q", q)
    checks.check_rank("q", q, *((4, checks.Q_AXES) if qo_indptr is None else (3, PACKED_Q_AXES)))
    dtype = checks.check_rows(q, out, lse)
    if qo_indptr is not None:
        _check_indptr("qo_indptr", qo_indptr, q, q.shape[0], None)
    return dtype


def _check_kv(inputs: PrefillInputs, batch: int, head_dim: int) -> tuple[int, int | None]:
    """(kv_len, page_size) of the shape."""
    q, k = inputs.q, inputs.k
    if inputs.kv_indptr is not None:
        for name, other in (("page_table", inputs.page_table), ("kv_lens", inputs.kv_lens)):
            if other is not None:
                raise ValueError(f"kv_indptr and {name} are given, accepted is one of them")
        checks.check_rank("k", k, 3, PACKED_KV_AXES)
        checks.check_shape("k", k, (k.shape[0], k.shape[1], head_dim), PACKED_KV_AXES)
        _check_indptr("kv_indptr", inputs.kv_indptr, q, k.shape[0], batch)
        return int(k.shape[0]), None
    if inputs.page_table is None:
        checks.check_rank("k", k, 4, KV_AXES)
        checks.check_shape("k", k, (batch, k.shape[1], k.shape[2], head_dim), KV_AXES)
        if inputs.kv_lens is not None:
            checks.check_kv_lens(inputs.kv_lens, q, batch, k.shape[1], "the length of k")
        return int(k.shape[1]), None
    checks.check_rank("k", k, 4, PAGE_AXES)
    checks.check_shape("k", k, (*k.shape[:3], head_dim), PAGE_AXES)
    if k.shape[1] < 1:
        raise ValueError("page_size is 0, accepted is 1 or more")
    checks.check_tensor("page_table", inputs.page_table)
    checks.check_rank("page_table", inputs.page_table, 2, "[batch, max_pages]")
    entries = inputs.page_table.shape[1]
    checks.check_shape("page_table", inputs.page_table, (batch, entries), "[batch, max_pages]")
    checks.check_int32("page_table", inputs.page_table, q)
    if inputs.kv_lens is None:
        raise ValueError("kv_lens is None, accepted with page_table is int32 [batch]")
    capacity = entries * k.shape[1]
    checks.check_kv_lens(inputs.kv_lens, q, batch, capacity, "the keys that page_table has room for")
    return capacity, int(k.shape[1])


def _check_indptr(name: str, indptr: Any, q: torch.Tensor, total: int, batch: int | None) -> None:
    """int32 [batch + 1]; on the CPU from 0 to `total` without falling, on a device no value is read."""
    checks.check_tensor(name, indptr)
    checks.check_rank(name, indptr, 1, "[batch + 1]")
    checks.check_shape(name, indptr, (max(1, indptr.shape[0]) if batch is None else batch + 1,), "[batch + 1]")
    checks.check_int32(name, indptr, q)
    if indptr.device.type != "cpu":
        return
    values = indptr.tolist()
    if values[0] != 0 or values[-1] != total:
        raise ValueError(f"{name} goes from {values[0]} to {values[-1]}, accepted is from 0 to {total}")
    if any(b < a for a, b in pairwise(values)):
        raise ValueError(f"{name} is {values}, accepted are values that do not fall")


def _longest_query(qo_indptr: torch.Tensor, max_qo_len: int | None, total: int) -> int:
    """What the launch is planned for: the longest sequence where the CPU knows it, else max_qo_len, `total` at most."""
    longest = longest_of(qo_indptr) if qo_indptr.device.type == "cpu" else 0
    if max_qo_len is None:
        if qo_indptr.device.type != "cpu":
            raise ValueError(
                "max_qo_len is None, accepted with qo_indptr on a device is the longest sequence's length: reading it "
                "there would make the host wait"
            )
        return longest
    if max_qo_len < longest:
        raise ValueError(f"max_qo_len is {max_qo_len}, accepted is {longest} or more, the longest sequence of q")
    return longest if qo_indptr.device.type == "cpu" else min(max_qo_len, total)


def longest_of(indptr: torch.Tensor) -> int:
    """The longest sequence of a packed batch; waits for the device."""
    return int(indptr.diff().max()) if indptr.shape[0] > 1 else 0
