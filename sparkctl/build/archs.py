"""Which archs a build is for: what was asked, else this machine's devices, else sm_90."""

from __future__ import annotations

from sparkctl.arch import Arch, parse_archs
from sparkctl.registry import Registry
from sparkctl.runtime.manifest import Backend
from sparkctl.toolchain import Toolchain, find_native_archs

DEFAULT_ARCH = Arch(9, 0)


def default_archs() -> tuple[Arch, ...]:
    """This machine's devices, else sm_90."""
    return find_native_archs() or (DEFAULT_ARCH,)


def choose_archs(
    text: str | None, toolchain: Toolchain, *, backend: Backend = "cuda", registry: Registry | None = None
) -> tuple[Arch, ...]:
    """The archs that a comma list names; `all` means all that this nvcc knows. UsageError for an unknown one.

    Without a list those of flags.yaml (`archs`), else the default ones; the emulator then stands for sm_90.
    """
    if text is None:
        if backend == "emulator":
            return (DEFAULT_ARCH,)
        return (registry.archs if registry else ()) or default_archs()
    archs = parse_archs(text, native=find_native_archs)
    if "all" in [word.strip().lower() for word in text.split(",")] and toolchain.nvcc:
        return tuple(arch for arch in archs if arch.name in toolchain.nvcc.gpu_codes or arch.suffix)
    return archs
