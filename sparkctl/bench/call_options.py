"""What a call is asked for beside plain attention: lse, a window, a soft-cap, sinks; as they are written. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from sparkctl.bench.sizes import format_size, parse_size
from sparkctl.errors import UsageError
from sparkctl.ops.options import SOFTCAPS, visible_length
from sparkctl.registry.suggest import did_you_mean

PLAIN_NAME = "plain"
FORM = "lse, window=KEYS, softcap=NUMBER, sinks; + joins two: lse,window=4k,softcap=30,window=4k+sinks"


@dataclass(frozen=True, slots=True)
class CallOptions:
    """As the operators take them; the default is plain attention. Prints as it is written: `window=4k+sinks`."""

    lse: bool = False
    window: int | None = None
    softcap: float | None = None
    sinks: bool = False

    def __str__(self) -> str:
        parts = ["lse"] if self.lse else []
        parts += [] if self.window is None else [f"window={format_size(self.window)}"]
        parts += [] if self.softcap is None else [f"softcap={self.softcap:g}"]
        parts += ["sinks"] if self.sinks else []
        return "+".join(parts) or PLAIN_NAME

    def seen(self, kv_len: int, qo_len: int) -> int:
        """Keys of a sequence that some query sees."""
        return visible_length(kv_len, qo_len, self.window)


PLAIN = CallOptions()


def parse_call_options(text: str) -> CallOptions:
    """`lse`, `window=4k`, `softcap=30`, `sinks`, or several joined by `+`; UsageError for anything else."""
    options, seen = PLAIN, set()
    for part in (part.strip() for part in text.split("+")):
        name, equals, value = part.partition("=")
        if name not in _READ:
            raise UsageError(f"unknown option '{part}'", hint=did_you_mean(name, list(_READ)) or FORM)
        if name in seen:
            raise UsageError(f"'{text}': {name} is written twice", hint=FORM)
        seen.add(name)
        read = _READ[name]
        if bool(equals) != (read is not None):
            raise UsageError(f"'{part}': {name} takes {'a' if read else 'no'} value", hint=FORM)
        asked: Any = {name: True if read is None else read(value)}
        options = replace(options, **asked)
    return options


def _window(text: str) -> int:
    try:
        return parse_size(text)
    except UsageError as error:
        raise UsageError(f"window: {error.message}", hint=error.hint) from error


def _softcap(text: str) -> float:
    try:
        number = float(text) if len(text) <= 20 else 0.0
    except ValueError:
        number = 0.0
    if not SOFTCAPS[0] <= number <= SOFTCAPS[1]:
        raise UsageError(f"softcap: '{text}' is not accepted", hint=f"a number from {SOFTCAPS[0]:g} to {SOFTCAPS[1]:g}")
    return number


_READ: dict[str, Callable[[str], int | float] | None] = {
    "lse": None,
    "window": _window,
    "softcap": _softcap,
    "sinks": None,
}
