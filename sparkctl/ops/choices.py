"""What a call says beside its tensors and options: names, library, flags, switches and workspace, checked by type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sparkctl.ops import checks
from sparkctl.ops.overlap import check_apart
from sparkctl.ops.workspace import Workspace
from sparkctl.runtime import Manifest

if TYPE_CHECKING:
    import torch

PARTS = ("part_acc", "part_max", "part_sum")
PART_AXES = "[batch, qo_len, num_qo_heads, num_splits]"


def check_choices(
    kernel: Any,
    variant: Any,
    library: Any,
    *,
    flags: Any = None,
    return_lse: Any = False,
    explain: Any = False,
) -> None:
    """TypeError names the argument, its value and what is accepted. Which names there are is the library's to say."""
    if not isinstance(kernel, str):
        raise TypeError(f"kernel is {kernel!r}, accepted is the name of a kernel, or 'auto'")
    if variant is not None and not isinstance(variant, str):
        raise TypeError(f"variant is {variant!r}, accepted is the name of a variant, or None")
    check_library(library)
    if flags is not None and not isinstance(flags, Mapping):
        raise TypeError(f"flags is {flags!r}, accepted is a mapping of flags to values, or None")
    checks.check_bool("return_lse", return_lse)
    checks.check_bool("explain", explain)


def check_library(library: Any) -> None:
    """TypeError unless it is a library, or stands for one as the recorder of exported cases does, or None."""
    if library is not None and not isinstance(getattr(library, "manifest", None), Manifest):
        raise TypeError(f"library is {type(library).__name__}, accepted is sparkctl.runtime.Library, or None")


def check_workspace(workspace: Any, q: torch.Tensor) -> None:
    """A workspace for a q [batch, qo_len, num_qo_heads, head_dim]; TypeError or ValueError names the tensor."""
    import torch

    if not isinstance(workspace, Workspace):
        raise TypeError(f"workspace is {type(workspace).__name__}, accepted is sparkctl.ops.Workspace")
    for name in PARTS:
        checks.check_tensor(f"workspace.{name}", getattr(workspace, name))
        checks.check_device("workspace", getattr(workspace, name), "q", q)
    checks.check_rank("part_max", workspace.part_max, 4, PART_AXES)
    num_splits = workspace.num_splits
    checks.check_splits(num_splits)
    rows = (*q.shape[:3], num_splits)
    for name, shape in zip(PARTS, ((*rows, q.shape[3]), rows, rows), strict=True):
        part = getattr(workspace, name)
        if tuple(part.shape) != shape:
            raise ValueError(f"{name} has shape {list(part.shape)}, accepted is {list(shape)}")
        if part.dtype != torch.float32:
            raise TypeError(f"{name} has dtype {part.dtype}, accepted is torch.float32")
        if not part.is_contiguous():
            raise ValueError(f"{name} is not contiguous, accepted is a contiguous tensor")


def check_memory(
    inputs: Sequence[tuple[str, torch.Tensor | None]],
    out: torch.Tensor | None,
    lse: torch.Tensor | None,
    workspace: Workspace | None = None,
) -> None:
    """ValueError where what a caller gives to be written to shares memory with an input, or with one another."""
    if out is None and lse is None and workspace is None:
        return
    parts = [] if workspace is None else [(name, getattr(workspace, name)) for name in PARTS]
    check_apart([("out", out), ("lse", lse), *parts], inputs)
