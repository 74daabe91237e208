"""Splits, occupancy and waves on a GPU that is not here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from sparkctl.arch import Arch
from sparkctl.bench.axes import DecodeCase, Heads
from sparkctl.bench.gpus import find_gpu
from sparkctl.errors import MissingTool, WorkFailed
from sparkctl.registry import Registry, find_project, load_registry, select_variants
from sparkctl.resources import occupancy
from sparkctl.workflows.bench_plan import plan_bench
from sparkctl.workflows.bench_request import BenchRequest
from sparkctl.workflows.launch_estimate import Compiled, Launch, LaunchEstimates, Usage, estimate_launches

CASES = (DecodeCase(1, 16384, Heads(32, 8), 128), DecodeCase(8, 16384, Heads(32, 8), 128))
MMA = "attn_decode_split_kv_mma.bf16.d128"


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_registry(find_project(None))


def said(registry: Registry, names: Sequence[str], arch: Arch, registers: int) -> Usage:
    rows = {}
    for variant in select_variants(registry, names):
        occupied = occupancy(
            arch,
            threads=variant.block_threads,
            registers=registers,
            static_smem=0,
            dynamic_smem=variant.dynamic_smem_bytes,
            barriers=1,
        )
        rows[variant.name] = Compiled(registers, occupied)
    return Usage("nvcc 13.0.88", rows)


def estimate(registry: Registry, gpu: str, registers: int = 128) -> LaunchEstimates:
    spec = find_gpu(gpu)
    plan = plan_bench(registry, BenchRequest(CASES, pages_given=True), spec.arch)
    return estimate_launches(
        registry, plan, spec, read_usage=lambda r, names, arch, progress: said(r, names, arch, registers)
    )


def test_splits_and_waves_follow_from_the_gpus_sms_and_the_variants_registers(registry: Registry) -> None:
    first, second = estimate(registry, "H200").launches
    assert (first.variant, first.registers, first.blocks_per_sm) == (MMA, 128, 3)
    assert first.limiters == ("shared_memory",)
    assert first.grid == (8, first.num_splits, 1)
    assert first.num_splits > second.num_splits > 0
    assert first.waves == pytest.approx(8 * first.num_splits / (3 * 132))


def test_more_registers_are_fewer_blocks_and_more_waves(registry: Registry) -> None:
    few, many = estimate(registry, "H200").launches[0], estimate(registry, "H200", 201).launches[0]
    assert (many.blocks_per_sm, many.limiters) == (2, ("registers",))
    assert many.waves / many.num_splits > few.waves / few.num_splits


def test_another_gpu_has_other_splits(registry: Registry) -> None:
    splits = {
        gpu: [launch.num_splits for launch in estimate(registry, gpu).launches] for gpu in ("H200", "L20", "B200")
    }
    assert len({tuple(one) for one in splits.values()}) == 3


def test_splits_are_planned_for_the_blocks_that_fit(registry: Registry) -> None:
    spec, case = find_gpu("H200"), DecodeCase(1, 65536, Heads(32, 8), 32)
    plan = plan_bench(registry, BenchRequest((case,), pages_given=True), spec.arch)

    def launch(smem: int) -> Launch:
        fits = occupancy(spec.arch, threads=128, registers=64, static_smem=0, dynamic_smem=smem, barriers=1)

        def read(registry: Registry, names: Sequence[str], arch: Arch, progress: object) -> Usage:
            return Usage("nvcc", dict.fromkeys(names, Compiled(64, fits)))

        return estimate_launches(registry, plan, spec, read_usage=read).launches[0]

    few, many = launch(200_000), launch(36_000)
    assert (few.blocks_per_sm, many.blocks_per_sm) == (1, 6)
    assert few.num_splits < many.num_splits


@pytest.mark.parametrize(
    ("error", "missing"),
    [
        (MissingTool("no nvcc on PATH or in CUDA_HOME"), "no nvcc on PATH or in CUDA_HOME"),
        (WorkFailed("nvcc failed: unsupported arch\nits output"), "nvcc failed: unsupported arch"),
    ],
)
def test_without_registers_it_says_what_is_missing(registry: Registry, error: Exception, missing: str) -> None:
    def read(*args: Any) -> Usage:
        raise error

    spec = find_gpu("H200")
    plan = plan_bench(registry, BenchRequest(CASES, pages_given=True), spec.arch)
    assert estimate_launches(registry, plan, spec, read_usage=read) == LaunchEstimates((), missing=missing)
