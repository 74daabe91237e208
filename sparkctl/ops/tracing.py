"""Where an operator turns into its registered form: while torch.compile or torch.export traces the caller."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def under_compile(operator: Callable[P, R]) -> Callable[P, R]:
    """The operator, which torch.compile sees as `torch.ops.sparkctl.<name>`; any other call goes on directly."""

    @functools.wraps(operator)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if is_compiling():
            from sparkctl.ops import traced  # registers the operators when it is first imported

            return getattr(traced, operator.__name__)(*args, **kwargs)  # type: ignore[no-any-return]
        return operator(*args, **kwargs)

    return call


def is_compiling() -> bool:
    """Whether torch.compile or torch.export is tracing."""
    import torch

    return torch.compiler.is_compiling()
