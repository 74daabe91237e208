"""Sizes and ages as people read and write them."""

from __future__ import annotations

import re
import time
from fractions import Fraction

from sparkctl.errors import UsageError

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?B?)", re.IGNORECASE)
_AGE = re.compile(r"(\d+)\s*([smhdw])", re.IGNORECASE)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def format_bytes(size: int) -> str:
    """`0 B`, `512 KiB`, `1.5 GiB`."""
    value, unit = float(size), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    digits = 1 if unit and value < 100 else 0
    return f"{value:.{digits}f} {_UNITS[unit]}"


def parse_bytes(text: str) -> int:
    """`500M`, `1.5 GiB`: K, M, G and T are powers of 1024. UsageError for anything else."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or len(text) > 20 or not (match[2] or match[3]):
        raise UsageError(f"'{text}' is not a size", hint="a number with its unit: 500M, 2G, 1.5GiB")
    return int(Fraction(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))


def parse_age(text: str) -> int:
    """`30d`, `12h`: in seconds. UsageError for anything else."""
    match = _AGE.fullmatch(text.strip())
    if match is None or len(text) > 12:
        raise UsageError(f"'{text}' is not an age", hint="a number with s, m, h, d or w: 30d, 12h")
    return int(match[1]) * _SECONDS[match[2].lower()]


def format_day(when: float) -> str:
    """`2026-01-31`, in local time."""
    return time.strftime("%Y-%m-%d", time.localtime(when))
