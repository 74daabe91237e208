"""A peer's first steps: import, plan, one call. Whatever it raises there becomes a reason in one line."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from sparkctl.bench.buffers import Slots
from sparkctl.bench.faults import lost_reason
from sparkctl.bench.peers.base import PeerArm
from sparkctl.interrupts import check_interrupt

if TYPE_CHECKING:
    import torch

LONGEST = 200  # characters of a reason
_SPEAKS_FOR_ITSELF = (ImportError, NotImplementedError, RuntimeError, ValueError)  # the class adds nothing

Call = Callable[[int], "torch.Tensor"]
_Made = TypeVar("_Made")


class NotApplicableError(Exception):
    """This peer cannot run this case; the text is the reason."""


def try_arm(name: str, prepare: Callable[[], Call], slots: Slots) -> PeerArm:
    """The arm whose call `prepare` returns, if a first call goes well; else an arm with the reason.

    Every class of exception counts, SystemExit too; only Ctrl-C and the loss of the device go through.
    """

    def rehearsed() -> Call:
        call = prepare()
        _check_output(call(0), slots.q[0])
        return call

    made = _result_or_reason(rehearsed)
    return PeerArm(name, None, made) if isinstance(made, str) else PeerArm(name, made)


def find_fault(module: str, package: str) -> str | None:
    """Why the module cannot be imported, None if it can."""
    made = _result_or_reason(lambda: load_module(module, package))
    return made if isinstance(made, str) else None


def load_module(module: str, package: str) -> Any:
    """The module, imported; NotApplicableError when its package is not there."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise  # something that it needs itself
        raise NotApplicableError(f"the package {package} is not installed") from error


def reason_of(error: BaseException) -> str:
    """One line, with the class of the error where the text alone would not say what it is."""
    text = one_line(str(error))
    if isinstance(error, NotApplicableError) or (text and isinstance(error, _SPEAKS_FOR_ITSELF)):
        return text
    return f"{type(error).__name__}: {text}" if text else f"{type(error).__name__} without a message"


def one_line(text: str) -> str:
    """The first line; behind one that ends in a colon, the first that speaks of an error, else the next."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    first, later = lines[0], lines[1:]
    if first.endswith(":") and later:
        first = f"{first} {next((line for line in later if 'error' in line.lower()), later[0])}"
    first = first.partition(" (Triggered internally")[0].strip()
    return first if len(first) <= LONGEST else f"{first[: LONGEST - 1]}…"


def _result_or_reason(make: Callable[[], _Made]) -> _Made | str:
    try:
        return make()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        check_interrupt()
        if lost_reason(error):
            raise
        return reason_of(error)


def _check_output(out: torch.Tensor, q: torch.Tensor) -> None:
    if out.shape != q.shape or out.dtype != q.dtype:
        wanted, got = (f"{str(t.dtype).removeprefix('torch.')} {list(t.shape)}" for t in (q, out))
        raise NotApplicableError(f"its output is {got}, not {wanted}")
