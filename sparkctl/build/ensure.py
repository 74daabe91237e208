"""Builds what other commands need before they can start."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from sparkctl.arch import Arch
from sparkctl.build.failures import raise_failures
from sparkctl.build.plan import plan_build
from sparkctl.build.progress import Progress
from sparkctl.build.runner import run_build
from sparkctl.build.sanitize import Sanitizer
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
    runner: bool = False,
    sanitizer: Sanitizer | None = None,
    program: Path | None = None,
) -> Path:
    """Build what is missing or out of date of `variants`; the folder with the library, its manifest and ptxas logs.

    With `runner` the standalone test runner is built too, with a `sanitizer` the runner alone,
    with a `program` that alone.

    Raises WorkFailed with the failed edges' own output.
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
        runner=runner,
        sanitizer=sanitizer,
        program=program,
    )
    result = run_build([plan], jobs=jobs, progress=progress)
    raise_failures(result)
    return plan.folder
