"""What one SM of each compute capability holds; every row says where its numbers are printed."""

from __future__ import annotations

from dataclasses import dataclass

from sparkctl.arch.model import Arch
from sparkctl.errors import UsageError

KIB = 1024
WARP_THREADS = 32

# Where the numbers are printed. CCCL's header has a row per arch in code (threads, warps, blocks, registers, shared
# memory); NVIDIA's occupancy header has blocks, granularities and barriers, and is the oracle of
# tests/unit/resources/test_occupancy_oracle.py.
TRAITS = "cuda/__device/arch_traits.h of nvidia-cuda-cccl 13.3"
HEADER = "cuda_occupancy.h of nvidia-cuda-runtime 13.5.37"


@dataclass(frozen=True, slots=True)
class Limits:
    """Per-SM and per-block limits of a compute capability. Sizes in bytes; `barriers_per_sm` None is not limited."""

    threads_per_sm: int
    warps_per_sm: int
    blocks_per_sm: int
    smem_per_sm: int
    smem_per_block_optin: int
    barriers_per_sm: int | None
    source: str
    # The same on every capability from 8.0 to 12.1 (both headers).
    threads_per_block: int = 1024
    smem_per_block_static: int = 48 * KIB
    smem_reserved_per_block: int = 1 * KIB
    smem_granularity: int = 128
    registers_per_sm: int = 65_536
    registers_per_block: int = 65_536
    registers_per_thread: int = 255
    register_granularity: int = 256  # per warp
    sub_partitions: int = 4


def _row(warps: int, blocks: int, smem_kib: int, barriers: int | None, source: str) -> Limits:
    """A block may opt in to all of the SM's shared memory but the reserved KiB."""
    return Limits(
        threads_per_sm=warps * WARP_THREADS,
        warps_per_sm=warps,
        blocks_per_sm=blocks,
        smem_per_sm=smem_kib * KIB,
        smem_per_block_optin=(smem_kib - 1) * KIB,
        barriers_per_sm=barriers,
        source=source,
    )


_ROWS: dict[tuple[int, int], Limits] = {
    #          warps blocks smem barriers
    (8, 0): _row(64, 32, 164, None, f"{TRAITS}, sm_80"),
    (8, 6): _row(48, 16, 100, None, f"{TRAITS}, sm_86"),
    (8, 7): _row(48, 16, 164, None, f"{TRAITS}, sm_87"),
    (8, 8): _row(48, 16, 100, None, f"{TRAITS}, sm_88"),
    (8, 9): _row(48, 24, 100, None, f"{TRAITS}, sm_89"),
    (9, 0): _row(64, 32, 228, 64, f"{TRAITS}, sm_90; barriers: {HEADER}"),
    (10, 0): _row(64, 32, 228, 64, f"{TRAITS}, sm_100; barriers: {HEADER}"),
    # Headers before 13.5 gave 10.3 the 64 barriers of 10.0.
    (10, 3): _row(64, 32, 228, 32, f"{TRAITS}, sm_103; barriers: {HEADER}"),
    (11, 0): _row(48, 24, 228, 24, f"{TRAITS}, sm_110; barriers: {HEADER}"),
    (12, 0): _row(48, 24, 100, 24, f"{TRAITS}, sm_120; barriers: {HEADER}"),
    (12, 1): _row(48, 24, 100, 24, f"{TRAITS}, sm_121; barriers: {HEADER}"),
}

KNOWN_ARCHS: tuple[Arch, ...] = tuple(Arch(major, minor) for major, minor in _ROWS)


def limits_for(arch: Arch) -> Limits:
    """The limits of `arch`'s compute capability; UsageError when this table has no row for it."""
    try:
        return _ROWS[arch.major, arch.minor]
    except KeyError:
        known = ", ".join(known.name for known in KNOWN_ARCHS)
        raise UsageError(f"no limits are known for {arch.name}", hint=f"known archs: {known}") from None
