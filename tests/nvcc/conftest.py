"""A project of three trivial kernels, built for real; compiles are shared by one cache for the whole session."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the helpers beside the tests

from sparkctl.arch import parse_arch
from sparkctl.build import PlanResult, plan_build, run_build
from sparkctl.registry import load_registry, select_variants
from sparkctl.runtime.manifest import Backend
from sparkctl.toolchain import find_toolchain

REGISTRY = """\
version: 1
profiles:
  release:
    doc: Plain.
    nvcc: []
    ptxas: [-v]
    host: [-O0, -g]
  lineinfo:
    doc: With lines.
    extends: release
    nvcc: [-lineinfo]
flags:
  level:
    kind: define
    type: int
    default: 1
    define: TINY_LEVEL
    affects: [alpha]
    doc: A number that only alpha sees.
    reason: Tests.
  extra:
    kind: nvcc
    type: str
    default: ''
    affects: ['*']
    options: {'*': ['{value}']}
    doc: Further options.
    reason: Tests.
kernels:
  alpha:
    family: tiny
    doc: Scales.
    source: csrc/alpha.cu
    min_arch: sm_80
    axes:
      size: {values: [1, 2], short: n}
    block: 32
    dynamic_smem: 0
    accepts: {}
  beta:
    family: tiny
    doc: Adds.
    source: csrc/beta.cu
    min_arch: sm_80
    axes:
      size: {values: [1], short: n}
    block: 32
    dynamic_smem: 0
    accepts: {}
"""
ALPHA = """\
#include "common/tiny.h"
#include "common/scale.h"
__global__ void KERNEL(alpha, SPARK_SIZE)(float* data) { data[0] *= SCALE * SPARK_SIZE + TINY_LEVEL; }
"""
BETA = """\
#include "common/tiny.h"
__global__ void KERNEL(beta, SPARK_SIZE)(float* data) { data[0] += SPARK_SIZE; }
"""
TINY = """\
#pragma once
#define JOINED(name, size) name##_##size
#define KERNEL(name, size) JOINED(name, size)
#ifdef SPARK_EMULATOR
#define __global__
#endif
"""
ALL = ("alpha.n1", "alpha.n2", "beta.n1")


@dataclass
class TinyProject:
    """A folder with a registry and kernels, and the environment that it is built in."""

    root: Path
    environ: dict[str, str] = field(default_factory=dict)

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def build(
        self,
        *patterns: str,
        backend: Backend = "cuda",
        profile: str = "release",
        sets: Mapping[str, str] | None = None,
        nvcc: str | None = None,
    ) -> PlanResult:
        registry = load_registry(self.root / "flags.yaml")
        arch = parse_arch("sm_90")
        plan = plan_build(
            registry,
            select_variants(registry, patterns, arch=arch),
            arch=arch,
            backend=backend,
            profile=profile,
            sets=sets,
            toolchain=find_toolchain(nvcc=nvcc, environ=self.environ),
            environ=self.environ,
        )
        return run_build([plan], jobs=2).plans[0]

    def folder(self, backend: Backend = "cuda", profile: str = "release") -> Path:
        return self.root / "build" / f"{backend}-sm_90-{profile}"

    def sparkctl(self, *args: str, **kwargs: object) -> subprocess.CompletedProcess[str]:
        """The program itself, in the project's folder."""
        command = [sys.executable, "-m", "sparkctl.cli.app", *args]
        return subprocess.run(
            command, cwd=self.root, env=self.environ, capture_output=True, text=True, timeout=120, **kwargs
        )

    def start(self, *args: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "sparkctl.cli.app", *args]
        return subprocess.Popen(
            command, cwd=self.root, env=self.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )


def statuses(result: PlanResult) -> dict[str, str]:
    return {edge.name: edge.status for edge in result.edges if edge.is_variant}


def write_tiny_project(root: Path) -> None:
    files = {
        "flags.yaml": REGISTRY,
        "csrc/alpha.cu": ALPHA,
        "csrc/beta.cu": BETA,
        "csrc/common/tiny.h": TINY,
        "csrc/common/scale.h": "#define SCALE 3.0f\n",
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sparkctl-cache")


@pytest.fixture
def environ(shared_cache: Path) -> dict[str, str]:
    kept = {
        name: os.environ[name]
        for name in ("PATH", "HOME", "LANG", "CUDA_HOME", "SPARKCTL_NVCC", "PYTHONPATH")
        if name in os.environ
    }
    return {**kept, "SPARKCTL_CACHE_DIR": str(shared_cache)}


@pytest.fixture
def tiny(tmp_path: Path, environ: dict[str, str]) -> TinyProject:
    """Not built yet."""
    if find_toolchain(environ=environ).nvcc is None:
        pytest.skip("no nvcc: pip install 'sparkctl[toolchain]'")
    write_tiny_project(tmp_path / "project")
    return TinyProject(tmp_path / "project", environ)


@pytest.fixture
def built(tiny: TinyProject) -> TinyProject:
    """Built for CUDA, from the shared cache after the first time."""
    result = tiny.build()
    assert not result.failed
    return tiny


@pytest.fixture
def fresh_cache(tiny: TinyProject, tmp_path: Path) -> TinyProject:
    """A project with a compile cache of its own."""
    tiny.environ["CCACHE_DIR"] = str(tmp_path / "ccache")
    return tiny


def copy_project(project: TinyProject, to: Path) -> TinyProject:
    shutil.copytree(project.root, to, ignore=shutil.ignore_patterns("build"))
    return TinyProject(to, dict(project.environ))
