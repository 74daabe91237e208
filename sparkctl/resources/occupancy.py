"""How many blocks of a kernel one SM holds, what limits them, and the next step up.

The rules are those of NVIDIA's cuda_occupancy.h; tests/unit/resources/test_occupancy_oracle.py compiles that header
and compares. One difference is meant: where barriers limit, the header also keeps the limiters of the count before
barriers; here a limiter is one whose own count equals the result.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkctl.arch import Arch, Limits, limits_for
from sparkctl.arch.limits import WARP_THREADS
from sparkctl.errors import UsageError


@dataclass(frozen=True, slots=True)
class BlockLimits:
    """Blocks per SM that each resource alone allows; None is no limit."""

    warps: int
    registers: int | None
    shared_memory: int
    blocks: int
    barriers: int | None

    def items(self) -> tuple[tuple[str, int | None], ...]:
        return (
            ("warps", self.warps),
            ("registers", self.registers),
            ("shared_memory", self.shared_memory),
            ("blocks", self.blocks),
            ("barriers", self.barriers),
        )


@dataclass(frozen=True, slots=True)
class Occupancy:
    """`limiters` names every resource whose own count equals `blocks_per_sm`. 0 blocks: it cannot launch."""

    blocks_per_sm: int
    warps_per_sm: int
    percent: float  # of the SM's warps
    limiters: tuple[str, ...]
    limits: BlockLimits


@dataclass(frozen=True, slots=True)
class NextStep:
    """The least change that gives more blocks per SM; None where that resource need not change."""

    blocks_per_sm: int  # may be several more: steps are coarse
    percent: float
    registers: int | None  # the most registers per thread that allow it
    smem_bytes: int | None  # the most static + dynamic bytes per block that allow it
    registers_fewer: int
    smem_bytes_fewer: int


def occupancy(
    arch: Arch, *, threads: int, registers: int, static_smem: int, dynamic_smem: int, barriers: int | None
) -> Occupancy:
    """`threads` per block, `registers` per thread, shared memory in bytes per block, `barriers` as ptxas prints them.

    `barriers` None (an old toolkit's log) counts as the one that __syncthreads uses. UsageError for a block without
    threads or a negative size.
    """
    if threads < 1 or min(registers, static_smem, dynamic_smem, barriers or 0) < 0:
        raise UsageError(
            f"no occupancy of a block of {threads} threads, {registers} registers, "
            f"{static_smem} + {dynamic_smem} bytes of shared memory and {barriers} barriers",
            hint="threads start at 1, the others at 0",
        )
    row = limits_for(arch)
    warps_per_block = _ceil_div(threads, WARP_THREADS)
    limits = BlockLimits(
        warps=row.warps_per_sm // warps_per_block if threads <= row.threads_per_block else 0,
        registers=_blocks_by_registers(row, warps_per_block, registers),
        shared_memory=_blocks_by_smem(row, static_smem + dynamic_smem),
        blocks=row.blocks_per_sm,
        barriers=_blocks_by_barriers(row, 1 if barriers is None else barriers),
    )
    blocks = min(count for _, count in limits.items() if count is not None)
    return Occupancy(
        blocks_per_sm=blocks,
        warps_per_sm=blocks * warps_per_block,
        percent=100 * blocks * warps_per_block / row.warps_per_sm,
        limiters=tuple(name for name, count in limits.items() if count == blocks),
        limits=limits,
    )


def next_step(arch: Arch, *, threads: int, registers: int, smem: int, barriers: int | None) -> NextStep | None:
    """The next occupancy step by fewer registers, less shared memory or both; None when neither can give one.

    `smem` is static plus dynamic bytes per block. Warps, block slots and barriers are taken as they are.
    """
    now = occupancy(arch, threads=threads, registers=registers, static_smem=smem, dynamic_smem=0, barriers=barriers)
    row, warps_per_block = limits_for(arch), _ceil_div(threads, WARP_THREADS)
    fixed = min(c for c in (now.limits.warps, now.limits.blocks, now.limits.barriers) if c is not None)
    target = now.blocks_per_sm + 1
    if target > fixed:
        return None
    most_registers = _most_registers(row, warps_per_block, target)
    most_smem = _most_smem(row, target)
    if most_registers < 1 or most_smem < 0:
        return None
    fewer_registers, fewer_smem = max(0, registers - most_registers), max(0, smem - most_smem)
    then = occupancy(
        arch,
        threads=threads,
        registers=registers - fewer_registers,
        static_smem=smem - fewer_smem,
        dynamic_smem=0,
        barriers=barriers,
    )
    return NextStep(
        blocks_per_sm=then.blocks_per_sm,
        percent=then.percent,
        registers=most_registers if fewer_registers else None,
        smem_bytes=most_smem if fewer_smem else None,
        registers_fewer=fewer_registers,
        smem_bytes_fewer=fewer_smem,
    )


def _blocks_by_registers(row: Limits, warps_per_block: int, registers: int) -> int | None:
    """Registers are given to whole warps, and each sub-partition has its own quarter of them.

    The header also checks that a block's warps, rounded up to the sub-partitions, fit: that is this count being 0.
    """
    if registers == 0:
        return None
    if registers > row.registers_per_thread:
        return 0
    per_warp = _round_up(registers * WARP_THREADS, row.register_granularity)
    warps_per_partition = row.registers_per_sm // row.sub_partitions // per_warp
    return warps_per_partition * row.sub_partitions // warps_per_block


def _blocks_by_smem(row: Limits, smem: int) -> int:
    if smem > row.smem_per_block_optin:
        return 0
    return row.smem_per_sm // _round_up(smem + row.smem_reserved_per_block, row.smem_granularity)


def _blocks_by_barriers(row: Limits, barriers: int) -> int | None:
    if row.barriers_per_sm is None or barriers == 0:
        return None
    return row.barriers_per_sm // barriers


def _most_registers(row: Limits, warps_per_block: int, blocks: int) -> int:
    """The inverse of _blocks_by_registers: the steps of the granularity from the top; 0 when none is low enough."""
    step = row.register_granularity // WARP_THREADS
    steps = (row.registers_per_thread, *range(row.registers_per_thread // step * step, 0, -step))
    return next((most for most in steps if (_blocks_by_registers(row, warps_per_block, most) or 0) >= blocks), 0)


def _most_smem(row: Limits, blocks: int) -> int:
    """The inverse of _blocks_by_smem; negative when the reserved bytes alone are too much."""
    share = row.smem_per_sm // blocks // row.smem_granularity * row.smem_granularity
    return min(share - row.smem_reserved_per_block, row.smem_per_block_optin)


def _ceil_div(value: int, step: int) -> int:
    return -(-value // step)


def _round_up(value: int, step: int) -> int:
    return _ceil_div(value, step) * step
