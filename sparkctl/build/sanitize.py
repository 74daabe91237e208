"""What `--sanitize` changes in a build of the emulator.

Only kernels are instrumented: the compiler puts a call before each load and store (`-fsanitize=thread`), or beside each
operation that can be undefined. The emulator itself takes these calls (csrc/emulator/watch.h), so no sanitizer library
is linked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Sanitizer = Literal["race", "memory", "undefined"]

_ACCESSES = ("-fsanitize=thread", "--param=tsan-distinguish-volatile=1")
_OPERATIONS = ("-fsanitize=undefined", "-fsanitize=float-cast-overflow")
_INSTRUMENTATION: Mapping[Sanitizer, tuple[str, ...]] = {
    "race": _ACCESSES,
    "memory": _ACCESSES,
    "undefined": _OPERATIONS,
}


def instrumentation(sanitizer: Sanitizer | None) -> tuple[str, ...]:
    """Compile options of a kernel: lines for the reports, and no more than -O1, which keeps them apart."""
    return ("-g1", "-O1", *_INSTRUMENTATION[sanitizer]) if sanitizer else ()


def sanitizer_defines(sanitizer: Sanitizer | None) -> dict[str, str]:
    """For every object, so that all agree on what is checked."""
    return {f"SPARK_SANITIZE_{sanitizer.upper()}": "1"} if sanitizer else {}
