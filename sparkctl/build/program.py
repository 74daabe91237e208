"""A program of one file around a user's own kernel: what a plan builds instead of variants."""

from __future__ import annotations

import hashlib
from pathlib import Path

from sparkctl.build.commands import runner_link_command
from sparkctl.build.model import Link
from sparkctl.build.paths import Paths, path_text
from sparkctl.errors import UsageError
from sparkctl.toolchain import Toolchain

PROGRAM_LINK_NAME = "link-program"
SUFFIXES = (".cu", ".cpp", ".cc", ".cxx")


def require_program(path: Path) -> Path:
    """The file's real path. UsageError where it cannot be compiled."""
    if not path.is_file():
        raise UsageError(f"{path}: {'not a file' if path.exists() else 'no such file'}", hint="name a .cu file")
    if path.suffix not in SUFFIXES:
        raise UsageError(f"{path}: not a source file", hint=f"accepted are {', '.join(SUFFIXES)}")
    try:
        with path.open("rb") as stream:
            start = stream.read(1 << 16)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="name a .cu file") from error
    if not start.strip():
        raise UsageError(f"{path}: empty", hint="a program with a kernel and a main(), as in docs/sanitize.md")
    if b"\0" in start:
        raise UsageError(f"{path}: not text", hint="name a .cu file")
    return path.resolve()


def program_folder_suffix(path: Path) -> str:
    """`-my_kernel-1a2b3c4d`: files of one name in different folders have a build folder each."""
    return f"-{path.stem}-{hashlib.blake2b(str(path).encode(), digest_size=4).hexdigest()}"


def program_link(toolchain: Toolchain, paths: Paths, folder: Path, program: Path) -> Link:
    """The program with the emulator."""
    return Link(
        PROGRAM_LINK_NAME,
        path_text(folder / program.stem, paths.root),
        runner_link_command(toolchain, paths=paths, cuda=False),
        groups=("emulator", "program"),
    )
