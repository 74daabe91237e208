"""Parses `cuobjdump -elf`: threads per block of each kernel, as __launch_bounds__ left them in the cubin."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod

_KERNEL = re.compile(r"^\.nv\.info\.(?P<name>\S+)$")
_THREADS = re.compile(r"^Attribute:\s+EIATTR_(?:MAX_THREADS|REQNTID)$")
_VALUE = re.compile(r"^Value:\s+(?P<sizes>(?:0x[0-9a-f]+\s*)+)$")


def parse_launch_bounds(text: str) -> Mapping[str, int]:
    """Threads per block by mangled name; kernels without a bound are left out."""
    bounds: dict[str, int] = {}
    kernel: str | None = None
    wanted = False
    for line in (line.strip() for line in text.splitlines()):
        if match := _KERNEL.match(line):
            kernel, wanted = match["name"], False
        elif line.startswith("."):
            kernel = None
        elif line.startswith("Attribute:"):
            wanted = _THREADS.match(line) is not None
        elif kernel and wanted and (match := _VALUE.match(line)):
            bounds[kernel] = prod(int(size, 16) for size in match["sizes"].split())
            wanted = False
    return bounds
