"""Finds the host compiler and the tools that builds run: ninja, ccache, cuobjdump."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkctl.errors import MissingTool, SparkctlError
from sparkctl.toolchain.memory import ProbeMemory, file_identity
from sparkctl.toolchain.process import run_tool


@dataclass(frozen=True, slots=True)
class HostCompiler:
    """The g++ that compiles bindings and the emulator, links, and stands behind nvcc."""

    path: Path
    version: str  # first line of `g++ --version`
    source: str  # "CXX" or "PATH"
    identity: str  # version and machine


def find_host_compiler(environ: Mapping[str, str], memory: ProbeMemory) -> HostCompiler | None:
    """`CXX` if it is set, else g++ on PATH, else None. A `CXX` that is not there is an error."""
    if chosen := environ.get("CXX"):
        found = shutil.which(chosen, path=environ.get("PATH", ""))
        if found is None:
            hint = "correct CXX, or unset it to use g++ from PATH"
            raise MissingTool(f"CXX names {chosen}, which is not a program", hint=hint)
        return _probe(Path(found).absolute(), "CXX", memory)
    if on_path := shutil.which("g++", path=environ.get("PATH", "")):
        return _probe(Path(on_path).absolute(), "PATH", memory)
    return None


def describe_native(host: HostCompiler, options: Sequence[str]) -> str:
    """What options such as `native` come to on this CPU: machines on which it differs must not share objects."""
    return run_tool([host.path, *options, "-Q", "--help=target"], timeout=30).stdout


def find_program(name: str, environ: Mapping[str, str]) -> Path | None:
    """A program that came with this Python's packages, else the one on PATH, else None."""
    ours = Path(sysconfig.get_path("scripts")) / name
    if ours.is_file() and os.access(ours, os.X_OK):
        return ours
    found = shutil.which(name, path=environ.get("PATH", ""))
    return Path(found).absolute() if found else None


def _probe(path: Path, source: str, memory: ProbeMemory) -> HostCompiler:
    key = f"host|{path}|{file_identity(path)}"
    facts = memory.recall(key)
    if facts is None:
        try:
            version = run_tool([path, "--version"], timeout=30).stdout.partition("\n")[0].strip()
            machine = run_tool([path, "-dumpmachine"], timeout=30).stdout.strip()
        except SparkctlError as error:
            raise MissingTool(f"{path} does not work: {error.message}", hint="install g++") from error
        facts = {"version": version, "machine": machine}
        memory.remember(key, facts)
    return HostCompiler(path, facts["version"], source, f"{facts['version']} {facts['machine']}")
