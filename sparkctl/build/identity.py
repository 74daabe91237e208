"""Stands for the compilers of a plan: objects of another identity are made again, and the cache keys on it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from sparkctl.build.model import Edge
from sparkctl.build.paths import tvm_folder
from sparkctl.runtime.manifest import Backend
from sparkctl.toolchain import Toolchain, describe_native

# Read by the compilers themselves: a change of one is a change of compiler.
COMPILER_VARIABLES = (
    *("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN"),
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX", "LIBRARY_PATH"),
)
_NATIVE = re.compile(r"-m(?:arch|tune|cpu)=native\b")


def compiler_identity(toolchain: Toolchain, backend: Backend, environ: Mapping[str, str], edges: Iterable[Edge]) -> str:
    """Over everything that decides an object besides its command and the project's own files.

    A command that asks for this machine's CPU is the same on every machine: what it means here is part of it.
    """
    host = toolchain.require_host()
    parts = [host.identity, _read(tvm_folder() / "_version.py")]
    if toolchain.nvcc:  # the emulator compiles with its headers
        parts.append(toolchain.nvcc.identity if backend == "cuda" else toolchain.nvcc.version)
    parts += [f"{name}={environ[name]}" for name in COMPILER_VARIABLES if environ.get(name)]
    if native := native_options(edges):
        parts.append(describe_native(host, native))
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()


def native_options(edges: Iterable[Edge]) -> tuple[str, ...]:
    """Options for the host compiler that mean this machine's CPU, each once; those that nvcc passes on too."""
    return tuple(dict.fromkeys(option for edge in edges for word in edge.argv for option in _NATIVE.findall(word)))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
