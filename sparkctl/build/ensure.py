"""Builds what other commands need before they can start."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from sparkctl.arch import Arch
from sparkctl.build.model import BuildResult, EdgeResult, PlanResult
from sparkctl.build.plan import plan_build
from sparkctl.build.progress import Progress
from sparkctl.build.runner import run_build
from sparkctl.errors import WorkFailed
from sparkctl.registry.model import Registry, Variant
from sparkctl.runtime.manifest import Backend
from sparkctl.toolchain import Toolchain, find_toolchain


def ensure_built(
    registry: Registry,
    variants: Sequence[Variant],
    *,
    arch: Arch,
    backend: Backend,
    profile: str = "release",
    sets: Mapping[str, str] | None = None,
    toolchain: Toolchain | None = None,
    environ: Mapping[str, str] = os.environ,
    build_root: Path | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Path:
    """Build what is missing or out of date of `variants`; the folder with the library, its manifest and ptxas logs.

    Raises WorkFailed with every failed edge's own output.
    """
    plan = plan_build(
        registry,
        variants,
        arch=arch,
        backend=backend,
        profile=profile,
        sets=sets,
        toolchain=toolchain or find_toolchain(environ=environ),
        environ=environ,
        build_root=build_root,
    )
    result = run_build([plan], jobs=jobs, progress=progress)
    raise_failures(result)
    return plan.folder


def raise_failures(result: BuildResult) -> None:
    """WorkFailed that shows each failed edge's output, if there is one."""
    broken = [(plan, edge) for plan in result.plans for edge in plan.failed]
    if not broken:
        return
    parts = [_describe(plan, edge) for plan, edge in broken]
    raise WorkFailed("\n\n".join(parts), hint=_hint(broken[0][0]))


def _describe(plan: PlanResult, edge: EdgeResult) -> str:
    code = edge.exit_code or 1
    how = f"killed by signal {code - 128}" if code > 128 else f"exit code {code}"
    if code == 128 + signal.SIGKILL:
        how += " (out of memory?)"
    lines = [f"{edge.name} failed ({plan.label}), {how}", edge.command or "", (edge.output or "").rstrip()]
    return "\n".join(line for line in lines if line)


def _hint(plan: PlanResult) -> str:
    return f"the rest is built; objects and logs are in {plan.folder}"
