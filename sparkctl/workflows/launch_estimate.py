"""What a launch would be on a GPU that is not here: registers from a build for its arch, then pure sums."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sparkctl.arch import Arch
from sparkctl.bench.arms import choose_for, prefill_shape, shape_of
from sparkctl.bench.axes import DecodeCase
from sparkctl.bench.gpus import GpuSpec
from sparkctl.build import Progress
from sparkctl.errors import MissingTool, WorkFailed
from sparkctl.ops.plan import plan_decode
from sparkctl.ops.prefill_plan import plan_prefill
from sparkctl.registry import Registry
from sparkctl.resources import Occupancy
from sparkctl.runtime import BuiltVariant
from sparkctl.toolchain import find_toolchain
from sparkctl.workflows.bench_plan import BenchPlan
from sparkctl.workflows.bench_request import described
from sparkctl.workflows.regs import report_regs

ReadUsage = Callable[[Registry, Sequence[str], Arch, Progress | None], "Usage"]


@dataclass(frozen=True, slots=True)
class Compiled:
    """What a variant takes on an arch."""

    registers: int
    occupancy: Occupancy | None


@dataclass(frozen=True, slots=True)
class Usage:
    """What the compiler said of variants, by name."""

    compiler: str
    rows: Mapping[str, Compiled]


@dataclass(frozen=True, slots=True)
class Launch:
    """One case on the variant that the operator would choose."""

    case: DecodeCase
    variant: str
    registers: int
    blocks_per_sm: int
    occupancy_percent: float  # of the SM's warps
    limiters: tuple[str, ...]
    num_splits: int
    grid: tuple[int, int, int]
    waves: float  # blocks of the grid over those that the GPU holds at a time


@dataclass(frozen=True, slots=True)
class LaunchEstimates:
    """Those of all cases, or why there are none."""

    launches: tuple[Launch, ...]
    compiler: str | None = None
    missing: str | None = None


def estimate_launches(
    registry: Registry,
    plan: BenchPlan,
    gpu: GpuSpec,
    *,
    progress: Progress | None = None,
    read_usage: ReadUsage | None = None,
) -> LaunchEstimates:
    """Builds the chosen variants for the GPU's arch where they are not built. No nvcc, and a build that fails, are
    the reason why there is nothing."""
    built = [described(variant) for variant in plan.variants]
    chosen = [(job.case, _choose(built, job.case)) for job in plan.jobs]
    names = list(dict.fromkeys(variant.name for _, variant in chosen))
    try:
        usage = (read_usage or read_built_usage)(registry, names, gpu.arch, progress)
    except MissingTool as error:
        return LaunchEstimates((), missing=error.message)
    except WorkFailed as error:
        return LaunchEstimates((), missing=error.message.partition("\n")[0])
    launches = tuple(_launch(case, variant, usage.rows[variant.name], gpu) for case, variant in chosen)
    return LaunchEstimates(launches, compiler=usage.compiler)


def read_built_usage(registry: Registry, names: Sequence[str], arch: Arch, progress: Progress | None) -> Usage:
    """The compiler's report of a build, as `sparkctl regs` has it."""
    toolchain = find_toolchain(environ=os.environ)
    report = report_regs(registry, names, archs=[arch], toolchain=toolchain, progress=progress)
    rows = {row.variant.name: Compiled(row.registers, row.occupancy) for row in report.rows if row.variant is not None}
    return Usage(report.compiler, rows)


def _choose(built: Sequence[BuiltVariant], case: DecodeCase) -> BuiltVariant:
    chosen = choose_for(built, case)
    assert chosen is not None  # the plan has refused a case that nothing takes
    return chosen


def _launch(case: DecodeCase, variant: BuiltVariant, row: Compiled, gpu: GpuSpec) -> Launch:
    occupied = row.occupancy
    if occupied is None or occupied.blocks_per_sm == 0:
        raise WorkFailed(f"{variant.name} cannot be launched on {gpu.name}")
    known = replace(variant, registers=row.registers, blocks_per_sm=occupied.blocks_per_sm)
    plan = (
        plan_prefill(prefill_shape(case), known, "")
        if case.prefill
        else plan_decode(shape_of(case), known, "", sm_count=gpu.sm_count, num_splits=case.num_splits)
    )
    blocks = plan.grid[0] * plan.grid[1] * plan.grid[2]
    return Launch(
        case=case,
        variant=variant.name,
        registers=row.registers,
        blocks_per_sm=occupied.blocks_per_sm,
        occupancy_percent=occupied.percent,
        limiters=occupied.limiters,
        num_splits=plan.num_splits,
        grid=plan.grid,
        waves=blocks / (occupied.blocks_per_sm * gpu.sm_count),
    )
