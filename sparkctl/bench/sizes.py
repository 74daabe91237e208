"""Sizes as people write them, and lists of values. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import TypeVar

from sparkctl.errors import UsageError

LARGEST = 2**31 - 1

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([km]?)", re.IGNORECASE)
_FACTORS = {"": 1, "k": 1024, "m": 1024 * 1024}
_Item = TypeVar("_Item")


def parse_size(text: str) -> int:
    """`16k` -> 16384, `1m` -> 1048576, `100` -> 100; UsageError for anything else or for a fraction of one."""
    match = _SIZE.fullmatch(text.strip())
    number = Fraction(match[1]) * _FACTORS[match[2].lower()] if match and len(text) <= 20 else Fraction(1, 2)
    if number.denominator != 1:
        raise UsageError(f"'{text}' is not a size", hint="a whole number, or one with k or m: 100, 16k, 1m")
    if number > LARGEST:
        raise UsageError(f"'{text}' is larger than {LARGEST}", hint="sizes are 32-bit integers")
    return int(number)


def format_size(number: int) -> str:
    """The shortest exact form: 16384 -> `16k`, 1000 -> `1000`."""
    for suffix in ("m", "k"):
        if number and number % _FACTORS[suffix] == 0:
            return f"{number // _FACTORS[suffix]}{suffix}"
    return str(number)


def parse_list(text: str, parse: Callable[[str], _Item], *, option: str) -> tuple[_Item, ...]:
    """A comma list through `parse`; UsageError naming the option when it is empty or has a value twice."""
    parts = [part for part in text.split(",") if part.strip()]
    if not parts:
        raise UsageError(f"{option} is empty", hint=f"a comma list, as in {option} 4k,16k")
    items: dict[_Item, str] = {}
    for part in map(str.strip, parts):
        item = parse(part)
        if item in items:
            same = "" if items[item] == part else f", as {items[item]} too"
            raise UsageError(f"{option}: {part} is written twice{same}", hint="each value once")
        items[item] = part
    return tuple(items)
