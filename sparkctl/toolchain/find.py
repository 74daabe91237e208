"""Everything a build needs from this machine, found once and described."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sparkctl.arch import Arch
from sparkctl.errors import MissingTool
from sparkctl.toolchain.host import HostCompiler, find_host_compiler, find_program
from sparkctl.toolchain.memory import ProbeMemory, user_cache_folder
from sparkctl.toolchain.nvcc import WHEELS_HINT, Nvcc, find_nvcc, require_supported, wheels_root


@dataclass(frozen=True, slots=True)
class CompilerChoice:
    """Which compiler is used and why, for people."""

    name: str  # "nvcc 13.0.88"
    path: Path
    source: str  # where it was found: "wheels"
    reason: str  # what came before it in the order and was not there
    passed_over: tuple[str, ...]  # of these, what the user had set


@dataclass(frozen=True, slots=True)
class Toolchain:
    """The tools found on this machine; None for what is missing."""

    nvcc: Nvcc | None
    host: HostCompiler | None
    ninja: Path | None
    ccache: Path | None
    cuobjdump: Path | None
    cuda_include_dirs: tuple[Path, ...]  # cuda_bf16.h and the like, for the emulator and the binding
    memory_folder: Path  # where answers of probes are kept
    nvdisasm: Path | None = None

    def require_nvcc(self) -> Nvcc:
        """nvcc, or MissingTool that says how to get it."""
        if self.nvcc is None:
            self.require_host()  # without it nvcc cannot be asked
            message = "no nvcc: looked at --nvcc, SPARKCTL_NVCC, CUDA_HOME, CUDA_PATH, PATH and the nvidia wheels"
            raise MissingTool(message, hint=WHEELS_HINT)
        return self.nvcc

    def require_host(self) -> HostCompiler:
        """g++, or MissingTool."""
        if self.host is None:
            raise MissingTool("no g++ on PATH", hint="install g++ (apt install g++), or name one in CXX")
        return self.host

    def require_ninja(self) -> Path:
        """ninja, or MissingTool."""
        if self.ninja is None:
            raise MissingTool("no ninja", hint="pip install ninja")
        return self.ninja

    def require_cuda_headers(self) -> tuple[Path, ...]:
        """The folders with cuda_bf16.h, or MissingTool."""
        if not self.cuda_include_dirs:
            raise MissingTool("no CUDA headers (cuda_bf16.h)", hint=WHEELS_HINT)
        return self.cuda_include_dirs

    def require_disassembler(self) -> tuple[Path, Path]:
        """cuobjdump and nvdisasm, or MissingTool."""
        tools = {"cuobjdump": self.cuobjdump, "nvdisasm": self.nvdisasm}
        if missing := [name for name, path in tools.items() if path is None]:
            message = f"no {' and no '.join(missing)}: looked beside nvcc, at the nvidia wheels and on PATH"
            raise MissingTool(message, hint=WHEELS_HINT)
        assert self.cuobjdump and self.nvdisasm
        return self.cuobjdump, self.nvdisasm

    def describe_compiler(self, *, cuda: bool) -> CompilerChoice:
        """The compiler of the kernels: nvcc, or g++ for the emulator."""
        if cuda:
            nvcc = self.require_nvcc()
            return CompilerChoice(f"nvcc {nvcc.version}", nvcc.path, nvcc.source, nvcc.reason, nvcc.passed_over)
        host = self.require_host()
        return CompilerChoice(host.version, host.path, host.source, "" if host.source == "CXX" else "CXX not set", ())

    def require_arch(self, arch: Arch) -> None:
        """UsageError if nvcc cannot compile for `arch`; the answer for a or f suffixes is remembered."""
        require_supported(self.require_nvcc(), arch, ProbeMemory(self.memory_folder))


def find_toolchain(*, nvcc: str | None = None, environ: Mapping[str, str] = os.environ) -> Toolchain:
    """Look for every tool. What is missing is None; MissingTool only for a tool that was named and is not there."""
    memory = ProbeMemory(user_cache_folder(environ))
    host = find_host_compiler(environ, memory)
    found = find_nvcc(nvcc, environ, memory) if host else None
    return Toolchain(
        nvcc=found,
        host=host,
        ninja=find_program("ninja", environ),
        ccache=find_program("ccache", environ),
        cuobjdump=_find_beside("cuobjdump", found, environ),
        cuda_include_dirs=found.include_dirs if found else _wheels_headers(),
        memory_folder=user_cache_folder(environ),
        nvdisasm=_find_beside("nvdisasm", found, environ),
    )


def _find_beside(name: str, nvcc: Nvcc | None, environ: Mapping[str, str]) -> Path | None:
    roots = [nvcc.root] if nvcc else []
    if wheels := wheels_root():
        roots.append(wheels)
    beside = (root / "bin" / name for root in roots)
    return next((path for path in beside if path.is_file()), None) or find_program(name, environ)


def _wheels_headers() -> tuple[Path, ...]:
    root = wheels_root()
    if root is None or not (root / "include" / "cuda_bf16.h").is_file():
        return ()
    return tuple(folder for folder in (root / "include", root / "include" / "cccl") if folder.is_dir())
