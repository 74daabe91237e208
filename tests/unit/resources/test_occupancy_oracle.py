"""Our occupancy against NVIDIA's cuda_occupancy.h, compiled with g++ and asked about thousands of points.

The header is that of nvidia-cuda-runtime 13.5.37, which `make setup` unpacks beside the packages. Without it that of
the toolkit that sparkctl would build with has to do; SPARKCTL_OCCUPANCY_INCLUDE names another folder.
"""

import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from sparkctl.arch import KNOWN_ARCHS, Arch, limits_for
from sparkctl.errors import SparkctlError
from sparkctl.resources import Occupancy, occupancy
from sparkctl.toolchain import find_toolchain

SOURCE = Path(__file__).with_name("occupancy_oracle.cpp")
BITS = {"warps": 1, "registers": 2, "shared_memory": 4, "blocks": 8, "barriers": 16}
POINTS_PER_ARCH = 5000
UNPACKED = Path(sys.prefix) / "occupancy"


@dataclass(frozen=True)
class Point:
    arch: Arch
    threads: int
    registers: int
    static_smem: int
    dynamic_smem: int
    barriers: int

    def ours(self, arch: Arch | None = None) -> Occupancy:
        return occupancy(
            arch or self.arch,
            threads=self.threads,
            registers=self.registers,
            static_smem=self.static_smem,
            dynamic_smem=self.dynamic_smem,
            barriers=self.barriers,
        )

    def question(self) -> str:
        row = limits_for(self.arch)
        device = f"{row.threads_per_sm} {row.smem_per_sm} {row.smem_per_block_optin}"
        block = f"{self.threads} {self.registers} {self.static_smem} {self.dynamic_smem} {self.barriers}"
        return f"{self.arch.major} {self.arch.minor} {device} {block}"


@dataclass(frozen=True)
class Oracle:
    program: Path
    cuda_version: int  # 13050 is 13.5

    def ask(self, points: list[Point]) -> list[tuple[int, int]]:
        """Blocks per SM and the bits of limiters, per point."""
        questions = "\n".join(point.question() for point in points)
        run = subprocess.run([self.program], input=questions, capture_output=True, text=True, check=True, timeout=60)
        answers = [tuple(map(int, line.split())) for line in run.stdout.splitlines()]
        assert len(answers) == len(points)
        assert all(status == 0 for status, _, _ in answers)
        return [(blocks, bits) for _, blocks, bits in answers]

    def barrier_twin(self, arch: Arch) -> Arch:
        """Headers before 13.5 give 10.3 the barriers of 10.0; the rest of the two rows is the same."""
        return Arch(10, 0) if self.cuda_version < 13050 and arch == Arch(10, 3) else arch


def missing(what: str) -> None:
    """CI promises the tools: there, their absence is a failure."""
    if os.environ.get("CI"):
        pytest.fail(f"{what}, though CI promises it")
    pytest.skip(what)


def include_folders() -> list[Path]:
    named = os.environ.get("SPARKCTL_OCCUPANCY_INCLUDE")
    if named:
        return [Path(named)]
    if (UNPACKED / "cuda_occupancy.h").is_file():
        return [UNPACKED]
    try:
        nvcc = find_toolchain().nvcc
    except SparkctlError:
        return []
    return list(nvcc.include_dirs) if nvcc is not None else []


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    folder = next((path for path in include_folders() if (path / "cuda_occupancy.h").is_file()), None)
    if folder is None:
        missing("no cuda_occupancy.h (install sparkctl[toolchain], or set SPARKCTL_OCCUPANCY_INCLUDE)")
    if shutil.which("g++") is None:
        missing("no g++")
    assert folder is not None
    version = re.search(r"#define CUDART_VERSION\s+(\d+)", (folder / "cuda_runtime_api.h").read_text(encoding="utf-8"))
    assert version is not None, f"{folder}/cuda_runtime_api.h says no CUDART_VERSION"
    program = tmp_path_factory.mktemp("oracle") / "oracle"
    command = ["g++", "-std=c++17", "-I", str(folder), str(SOURCE), "-o", str(program)]
    subprocess.run(command, check=True, timeout=120)
    return Oracle(program, int(version[1]))


def random_points(seed: int) -> list[Point]:
    """Even draws, and draws near the steps where results change."""
    draw = random.Random(seed)
    points = []
    for arch in KNOWN_ARCHS:
        optin = limits_for(arch).smem_per_block_optin
        for _ in range(POINTS_PER_ARCH):
            static = draw.choice((0, 0, 16, draw.randrange(48 * 1024)))
            dynamic = draw.choice((0, draw.randrange(optin + 2048), 1024 * draw.randrange(optin // 1024 + 2)))
            points.append(
                Point(
                    arch=arch,
                    threads=draw.choice((draw.randint(1, 1056), 32 * draw.randint(1, 33), 32, 64, 128)),
                    registers=draw.choice((draw.randint(0, 255), 8 * draw.randint(1, 31), 24, 255)),
                    static_smem=static,
                    dynamic_smem=max(0, dynamic - draw.choice((0, static))),
                    barriers=draw.choice((0, 1, 1, draw.randint(0, 16))),
                )
            )
    return points


def header_bits(result: Occupancy) -> int:
    """Our limiters as the header reports them: it keeps those of the count before barriers were looked at."""
    before_barriers = min(c for name, c in result.limits.items() if c is not None and name != "barriers")
    kept = {name for name, count in result.limits.items() if count == before_barriers and name != "barriers"}
    return sum(BITS[name] for name in kept | (set(result.limiters) & {"barriers"}))


def test_thousands_of_points_agree_with_the_header(oracle: Oracle) -> None:
    points = random_points(seed=20240607)
    different = [
        (point, result.blocks_per_sm, result.limiters, blocks, bits)
        for point, (blocks, bits) in zip(points, oracle.ask(points), strict=True)
        if (result := point.ours(oracle.barrier_twin(point.arch)))
        and (result.blocks_per_sm, header_bits(result)) != (blocks, bits)
    ]
    assert different == []


def test_ten_capabilities_and_more_have_five_thousand_points_each() -> None:
    counts = Counter(point.arch for point in random_points(seed=20240607))
    assert len(counts) == len(KNOWN_ARCHS) >= 10
    assert set(counts.values()) == {5000}


def test_in_ci_the_header_is_the_one_whose_limits_are_in_the_table(oracle: Oracle) -> None:
    if not os.environ.get("CI") and not UNPACKED.is_dir():
        pytest.skip("no make setup was run")
    assert oracle.cuda_version == 13050


def test_the_points_reach_every_limiter_on_every_arch_that_has_it() -> None:
    reached = {(point.arch, name) for point in random_points(seed=20240607) for name in point.ours().limiters}
    with_barriers = [arch for arch in KNOWN_ARCHS if limits_for(arch).barriers_per_sm is not None]
    expected = {(arch, name) for arch in KNOWN_ARCHS for name in BITS if name != "barriers" or arch in with_barriers}
    assert expected <= reached


def test_where_barriers_limit_the_header_also_names_registers_and_we_do_not(oracle: Oracle) -> None:
    point = Point(Arch(12, 0), threads=128, registers=64, static_smem=0, dynamic_smem=0, barriers=16)
    assert oracle.ask([point]) == [(1, BITS["registers"] | BITS["barriers"])]
    assert (point.ours().blocks_per_sm, point.ours().limiters) == (1, ("barriers",))


def test_the_barriers_of_10_3_are_those_of_the_header_of_its_version(oracle: Oracle) -> None:
    point = Point(Arch(10, 3), threads=128, registers=64, static_smem=0, dynamic_smem=0, barriers=16)
    expected = 2 if oracle.cuda_version >= 13050 else 4
    assert oracle.ask([point])[0][0] == expected
    assert point.ours().blocks_per_sm == 2
