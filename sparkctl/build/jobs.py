"""How many compiles run at once, and which of them may not run beside each other. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkctl.build.limits import MachineLimits

MEMORY_SHARE = 0.75  # of what is free; the rest is for everything else on the machine
ASSUMED_PEAK_BYTES = 400 << 20  # of a compile never measured: twice what one variant takes
HEAVY_BYTES = 2 << 30
PIDS_PER_JOB = 8  # sh, ccache, nvcc, its sh, and cicc, ptxas or the host compiler with its own children


@dataclass(frozen=True, slots=True)
class Jobs:
    """`-j` for ninja, why, and the edges that share the heavy pool."""

    count: int
    reason: str
    heavy: frozenset[str]
    heavy_depth: int


def plan_jobs(
    names: Sequence[str], peaks: Mapping[str, int], limits: MachineLimits, *, asked: int | None = None
) -> Jobs:
    """min(cores, 0.75 × free memory ÷ the heaviest peak, room for processes); `asked` (-j) wins over all of it.

    Edges above 2 GiB go through a pool as deep as memory allows, so that they do not hold back the light ones.
    """
    heavy = frozenset(name for name in names if peaks.get(name, 0) > HEAVY_BYTES)
    light_peak = max((peaks.get(name, ASSUMED_PEAK_BYTES) for name in names if name not in heavy), default=1)
    heavy_peak = max((peaks[name] for name in heavy), default=1)
    bounds = [(max(1, int(limits.cpus)), "cpus")]
    heavy_depth = len(heavy) or 1
    if limits.free_memory_bytes is not None:
        budget = int(limits.free_memory_bytes * MEMORY_SHARE)
        heavy_depth = max(1, min(heavy_depth, budget // heavy_peak))
        reserved = heavy_peak * heavy_depth if heavy else 0
        bounds.append((max(1, (budget - reserved) // light_peak + (heavy_depth if heavy else 0)), "memory"))
    if limits.free_pids is not None:
        bounds.append((max(1, limits.free_pids // (2 * PIDS_PER_JOB)), "process limit"))
    count, reason = min(bounds, key=lambda bound: bound[0])
    if asked is not None:
        count, reason = asked, "-j"
    return Jobs(count, reason, heavy, min(heavy_depth, count))
