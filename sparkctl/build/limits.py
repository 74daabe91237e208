"""What this machine, or the container we are in, lets a build use: cpus, memory and processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_UNLIMITED = 1 << 60  # cgroup v1 writes "no limit" as a number near 2**63


@dataclass(frozen=True, slots=True)
class MachineLimits:
    """None where nothing limits, or nothing tells."""

    cpus: float  # cores that may be used, after the cgroup's quota
    free_memory_bytes: int | None
    free_pids: int | None


def read_limits(fs_root: Path = Path("/"), *, cores: int | None = None) -> MachineLimits:
    """The tightest limit on the path from our cgroup to the root, v1 or v2. `fs_root` holds /proc and /sys."""
    cores = cores or len(os.sched_getaffinity(0))
    groups = _own_groups(fs_root)
    quotas = [quota for folder in _folders(fs_root, groups, "cpu") if (quota := _cpu_quota(folder)) is not None]
    memories = [free for folder in _folders(fs_root, groups, "memory") if (free := _free_memory(folder)) is not None]
    pids = [free for folder in _folders(fs_root, groups, "pids") if (free := _free_pids(folder)) is not None]
    available = _available_memory(fs_root)
    if available is not None:
        memories.append(available)
    return MachineLimits(
        cpus=min([float(cores), *quotas]),
        free_memory_bytes=min(memories, default=None),
        free_pids=min(pids, default=None),
    )


def _own_groups(fs_root: Path) -> dict[str, str]:
    """Controller -> our path in its hierarchy; "" is the v2 hierarchy."""
    groups: dict[str, str] = {}
    for line in _read(fs_root / "proc/self/cgroup").splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number == "0" and not controllers:
            groups[""] = path
        for controller in controllers.split(","):
            groups.setdefault(controller, path)
    return groups


def _folders(fs_root: Path, groups: dict[str, str], controller: str) -> Iterator[Path]:
    """Our cgroup's folder and its parents. In a container the path may not exist below the mount: then the mount."""
    base = fs_root / "sys/fs/cgroup"
    unified = controller not in groups
    mount, path = (base, groups.get("", "/")) if unified else (base / controller, groups[controller])
    if unified and not (base / "cgroup.controllers").exists():
        return
    parts = [part for part in path.split("/") if part and part != ".."]
    for depth in range(len(parts), -1, -1):
        folder = mount.joinpath(*parts[:depth])
        if folder.is_dir():
            yield folder


def _cpu_quota(folder: Path) -> float | None:
    words = _read(folder / "cpu.max").split()
    if len(words) == 2 and words[0] != "max":
        return int(words[0]) / int(words[1])
    quota, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
    return quota / period if quota and period and quota > 0 else None


def _free_memory(folder: Path) -> int | None:
    """Limit less use; pages of the file cache count as free, since the kernel gives them back."""
    limit, used = _number(folder / "memory.max"), _number(folder / "memory.current")
    if limit is None:
        limit, used = _number(folder / "memory.limit_in_bytes"), _number(folder / "memory.usage_in_bytes")
    if limit is None or limit >= _UNLIMITED or used is None:
        return None
    cache = {
        name: int(value)
        for name, value in (line.split() for line in _read(folder / "memory.stat").splitlines() if " " in line)
    }
    inactive = cache.get("inactive_file", cache.get("total_inactive_file", 0))
    return max(0, limit - used + inactive)


def _free_pids(folder: Path) -> int | None:
    limit, used = _number(folder / "pids.max"), _number(folder / "pids.current")
    return None if limit is None or used is None else max(0, limit - used)


def _available_memory(fs_root: Path) -> int | None:
    for line in _read(fs_root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _number(path: Path) -> int | None:
    """None for a missing file and for "max"."""
    try:
        return int(_read(path))
    except ValueError:
        return None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
