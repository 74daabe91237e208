"""doctor: g++, nvcc and CUDA's headers, each found and tried; ninja; the disassemblers."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path

from sparkctl.arch import Arch
from sparkctl.build import default_archs
from sparkctl.errors import SparkctlError
from sparkctl.toolchain import (
    HostCompiler,
    Nvcc,
    ProbeMemory,
    Toolchain,
    find_program,
    find_toolchain,
    run_tool,
    user_cache_folder,
)
from sparkctl.toolchain.host import find_host_compiler
from sparkctl.toolchain.nvcc import WHEELS_HINT, find_nvcc, require_supported, wheels_root
from sparkctl.toolchain.trial import try_host, try_nvcc
from sparkctl.workflows.finding import Finding, fix_for, found

_WHEEL = "nvidia-cuda-nvcc"


def look_at_compilers(environ: Mapping[str, str], temp: Path) -> Iterator[Finding]:
    """The tools of a build. Whatever is broken, the others are looked at too."""
    yield from found("g++", lambda: _look_at_host(environ))
    yield from found("nvcc", lambda: _look_at_nvcc(environ, temp))
    yield from found("CUDA headers", lambda: _look_at_headers(environ, temp))
    yield from found("ninja", lambda: _look_at_ninja(environ))
    yield from found("disassemblers", lambda: _look_at_disassemblers(environ), state="warning")


def compilers_of(environ: Mapping[str, str]) -> tuple[HostCompiler | None, Nvcc | None]:
    """What builds would use; None for what is missing or broken."""
    memory = ProbeMemory(user_cache_folder(environ))
    try:
        host = find_host_compiler(environ, memory)
        return host, find_nvcc(None, environ, memory) if host else None
    except SparkctlError:
        return None, None


def _look_at_host(environ: Mapping[str, str]) -> Iterator[Finding]:
    host = find_host_compiler(environ, ProbeMemory(user_cache_folder(environ)))
    if host is None:
        yield Finding("g++", "error", "not on PATH", fix="install g++ (apt install g++), or name one in CXX")
        return
    yield Finding("g++", "ok", host.version, f"{host.path} ({host.source})")


def _look_at_nvcc(environ: Mapping[str, str], temp: Path) -> Iterator[Finding]:
    memory = ProbeMemory(user_cache_folder(environ))
    host = find_host_compiler(environ, memory)
    if host is None:
        yield Finding("nvcc", "error", "cannot be asked without g++", fix="install g++ first")
        return
    nvcc = find_nvcc(None, environ, memory)
    if nvcc is None:
        what = "none: SPARKCTL_NVCC, CUDA_HOME, CUDA_PATH, PATH and the nvidia wheels"
        yield Finding("nvcc", "error", what, fix=WHEELS_HINT)
        return
    why = f"{nvcc.source}; {nvcc.reason}" if nvcc.reason else nvcc.source
    where = f"{nvcc.path} ({why})"
    newer = _newer_wheels(nvcc)
    for arch in default_archs():
        if fault := _fault(nvcc, host, arch, temp, environ, memory):
            what = f"{nvcc.version} does not compile for {arch.name}: {fault}"
            yield Finding("nvcc", "error", what, where, fix_for(fault, newer or _mend(nvcc)))
            return
    if nvcc.passed_over:
        name = nvcc.passed_over[0].partition(":")[0]
        what = f"{nvcc.version} works; {'; '.join(nvcc.passed_over)}"
        yield Finding("nvcc", "warning", what, where, fix=f"correct or unset {name}")
    elif newer:
        what = f"{nvcc.version} works, and the wheels hold a newer one, {metadata.version(_WHEEL)}"
        yield Finding("nvcc", "warning", what, where, newer)
    else:
        archs = ", ".join(arch.name for arch in default_archs())
        yield Finding("nvcc", "ok", f"{nvcc.version}, compiles for {archs}", where)


def _fault(
    nvcc: Nvcc, host: HostCompiler, arch: Arch, temp: Path, environ: Mapping[str, str], memory: ProbeMemory
) -> str | None:
    try:
        require_supported(nvcc, arch, memory)
    except SparkctlError as error:
        return error.message.partition(f"{arch.name}; ")[2] or error.message
    return try_nvcc(nvcc, host, arch, temp, environ)


def _newer_wheels(nvcc: Nvcc) -> str | None:
    """The command that takes the wheels' nvcc, where that is newer than the one that won."""
    root = wheels_root()
    if nvcc.source == "wheels" or root is None or not (root / "bin" / "nvcc").is_file():
        return None
    try:
        version = metadata.version(_WHEEL)
    except metadata.PackageNotFoundError:
        return None
    if _numbers(version)[:2] <= _numbers(nvcc.version)[:2]:
        return None
    return f"export SPARKCTL_NVCC={shlex.quote(str(root / 'bin' / 'nvcc'))}"


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]


def _mend(nvcc: Nvcc) -> str:
    if nvcc.source == "wheels":
        return f"{WHEELS_HINT}, which pins versions that fit together"
    return f"name another nvcc in SPARKCTL_NVCC, or {WHEELS_HINT} and take {nvcc.path.name} off {nvcc.source}"


def _look_at_headers(environ: Mapping[str, str], temp: Path) -> Iterator[Finding]:
    """The emulator compiles kernels with g++ and CUDA's headers."""
    tools = _tools(environ)
    if tools.host is None:
        return
    if not tools.cuda_include_dirs:
        yield Finding("CUDA headers", "error", "no cuda_bf16.h, which the emulator compiles with", fix=WHEELS_HINT)
        return
    where = str(tools.cuda_include_dirs[0])
    if fault := try_host(tools.host, tools.cuda_include_dirs, temp, environ):
        fix = fix_for(fault, (_newer_wheels(tools.nvcc) if tools.nvcc else None) or WHEELS_HINT)
        yield Finding("CUDA headers", "error", f"g++ does not compile with them: {fault}", where, fix)
    else:
        yield Finding("CUDA headers", "ok", "g++ compiles with them, as the emulator does", where)


def _look_at_ninja(environ: Mapping[str, str]) -> Iterator[Finding]:
    ninja = find_program("ninja", environ)
    if ninja is None:
        yield Finding("ninja", "error", "not installed", fix="pip install ninja")
    else:
        yield Finding("ninja", "ok", run_tool([ninja, "--version"], timeout=30).stdout.strip(), str(ninja))


def _look_at_disassemblers(environ: Mapping[str, str]) -> Iterator[Finding]:
    tools = _tools(environ)
    for name, path in (("cuobjdump", tools.cuobjdump), ("nvdisasm", tools.nvdisasm)):
        if path is None:
            what = "none, so sparkctl sass cannot run and built archs are not verified"
            yield Finding(name, "warning", what, fix=WHEELS_HINT)
        elif not os.access(path, os.X_OK):
            yield Finding(name, "warning", "is no program", str(path), f"chmod +x {shlex.quote(str(path))}")
        else:
            said = run_tool([path, "--version"], timeout=30).stdout.partition("release ")[2]
            yield Finding(name, "ok", said.partition(",")[0].strip() or "runs", str(path))


def _tools(environ: Mapping[str, str]) -> Toolchain:
    """What can be found where the chosen nvcc is broken too."""
    try:
        return find_toolchain(environ=environ)
    except SparkctlError:
        hidden = {name: value for name, value in environ.items() if name not in ("SPARKCTL_NVCC", "CXX")}
        return find_toolchain(environ=hidden)
