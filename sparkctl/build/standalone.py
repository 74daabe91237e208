"""The standalone test runner's part of a plan: its defines and its link.

Its other compile options are those of every host edge, so that a profile or a flag reaches all of its objects alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sparkctl.arch import Arch, limits_for
from sparkctl.build.commands import runner_link_command
from sparkctl.build.model import Link
from sparkctl.build.ninja_text import RUNNER_LINK_NAME
from sparkctl.build.paths import Paths, path_text
from sparkctl.errors import UsageError
from sparkctl.registry import Registry, Variant, span_variants
from sparkctl.runtime.manifest import Backend
from sparkctl.toolchain import Toolchain

RUNNER_NAME = "sparkctl-runner"


def require_runner_sources(root: Path) -> None:
    """UsageError for a project that has no runner."""
    folder = root / "csrc" / "runner"
    if not any(folder.glob("*.cpp")):
        raise UsageError(f"{folder} holds no sources: this project has no runner", hint="leave out --runner")


def runner_defines(arch: Arch, backend: Backend) -> dict[str, str]:
    """The emulator gives a block the shared memory that it has on the arch."""
    if backend == "cuda":
        return {}
    limits = limits_for(arch)
    return {
        "SPARK_RUNNER_SHARED_LIMIT": str(limits.smem_per_block_optin),
        "SPARK_RUNNER_STATIC_SHARED_LIMIT": str(limits.smem_per_block_static),
    }


def with_combines(registry: Registry, variants: Iterable[Variant]) -> list[Variant]:
    """The variants, and the combine of the same dtype and head_dim behind each decode: one cannot run without it."""
    wanted = {variant.name: variant for variant in variants}
    rows = {_row(v) for v in wanted.values() if v.kernel.family.endswith("decode")}
    combines = (v for k in registry.kernels.values() if k.family == "combine" for v in span_variants(k))
    wanted |= {v.name: v for v in combines if _row(v) in rows and v.name not in wanted}
    return list(wanted.values())


def _row(variant: Variant) -> tuple[object, object]:
    values = dict(variant.values)
    return values.get("dtype"), values.get("head_dim")


def runner_link(toolchain: Toolchain, paths: Paths, folder: Path, *, backend: Backend) -> Link:
    """The same objects as the library but for the bindings, so that neither tvm-ffi nor Python is needed."""
    return Link(
        RUNNER_LINK_NAME,
        path_text(folder / RUNNER_NAME, paths.root),
        runner_link_command(toolchain, paths=paths, cuda=backend == "cuda"),
        groups=("emulator", "runner"),
    )
