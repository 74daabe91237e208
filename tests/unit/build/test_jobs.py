"""How many jobs, from what the machine and the container allow."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkctl.build.jobs import plan_jobs
from sparkctl.build.limits import MachineLimits, read_limits

GIB = 1 << 30
MEMINFO = "MemTotal:       67108864 kB\nMemFree:        1024 kB\nMemAvailable:   33554432 kB\n"  # 32 GiB available


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


V2_LIMITED = {
    "proc/self/cgroup": "0::/kubepods/pod1/build\n",
    "proc/meminfo": MEMINFO,
    "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n",
    "sys/fs/cgroup/kubepods/cpu.max": "max 100000\n",
    "sys/fs/cgroup/kubepods/pod1/cpu.max": "250000 100000\n",
    "sys/fs/cgroup/kubepods/pod1/memory.max": "8589934592\n",
    "sys/fs/cgroup/kubepods/pod1/memory.current": "4294967296\n",
    "sys/fs/cgroup/kubepods/pod1/memory.stat": "anon 1073741824\nfile 3221225472\ninactive_file 2147483648\n",
    "sys/fs/cgroup/kubepods/pod1/build/memory.max": "max\n",
    "sys/fs/cgroup/kubepods/pod1/build/memory.current": "4096\n",
    "sys/fs/cgroup/kubepods/pod1/build/pids.max": "100\n",
    "sys/fs/cgroup/kubepods/pod1/build/pids.current": "20\n",
}
V1_LIMITED = {
    "proc/self/cgroup": "5:pids:/docker/abc\n4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n",
    "proc/meminfo": MEMINFO,
    "sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us": "150000\n",
    "sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us": "100000\n",
    "sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": "2147483648\n",
    "sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes": "1610612736\n",
    "sys/fs/cgroup/memory/docker/abc/memory.stat": "cache 1073741824\ntotal_inactive_file 536870912\n",
    "sys/fs/cgroup/pids/docker/abc/pids.max": "max\n",
    "sys/fs/cgroup/pids/docker/abc/pids.current": "12\n",
}
V1_SEEN_FROM_INSIDE = {
    # In a container the mount is the cgroup itself, so that the path of /proc/self/cgroup is not below it.
    "proc/self/cgroup": "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n",
    "proc/meminfo": MEMINFO,
    "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
    "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "1073741824\n",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": "73741824\n",
    "sys/fs/cgroup/memory/memory.stat": "total_inactive_file 0\n",
}
V1_UNLIMITED = {
    "proc/self/cgroup": "4:memory:/\n3:cpu,cpuacct:/\n0::/\n",
    "proc/meminfo": MEMINFO,
    "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": "73741824\n",
}


def test_cgroup_v2_takes_the_tightest_limit_on_the_way_up(tmp_path: Path) -> None:
    limits = read_limits(tree(tmp_path, V2_LIMITED), cores=16)
    assert limits == MachineLimits(cpus=2.5, free_memory_bytes=6 * GIB, free_pids=80)


def test_cgroup_v1_is_read_from_each_controllers_hierarchy(tmp_path: Path) -> None:
    limits = read_limits(tree(tmp_path, V1_LIMITED), cores=16)
    assert limits == MachineLimits(cpus=1.5, free_memory_bytes=1 * GIB, free_pids=None)


def test_cgroup_v1_inside_a_container_is_read_at_the_mount(tmp_path: Path) -> None:
    limits = read_limits(tree(tmp_path, V1_SEEN_FROM_INSIDE), cores=4)
    assert limits == MachineLimits(cpus=4, free_memory_bytes=1_000_000_000, free_pids=None)


def test_without_limits_the_machines_own_memory_and_cores_count(tmp_path: Path) -> None:
    limits = read_limits(tree(tmp_path, V1_UNLIMITED), cores=8)
    assert limits == MachineLimits(cpus=8, free_memory_bytes=32 * GIB, free_pids=None)


def test_a_machine_that_tells_nothing_limits_nothing(tmp_path: Path) -> None:
    assert read_limits(tmp_path, cores=3) == MachineLimits(cpus=3, free_memory_bytes=None, free_pids=None)


def test_this_machine_can_be_read() -> None:
    limits = read_limits()
    assert limits.cpus > 0
    assert limits.free_memory_bytes is None or limits.free_memory_bytes > 0


@pytest.mark.parametrize(
    ("limits", "peak", "expected"),
    [
        (MachineLimits(8, 64 * GIB, None), GIB // 5, (8, "cpus")),
        (MachineLimits(2.5, 64 * GIB, None), GIB // 5, (2, "cpus")),
        (MachineLimits(0.5, 64 * GIB, None), GIB // 5, (1, "cpus")),
        (MachineLimits(64, 4 * GIB, None), GIB, (3, "memory")),
        (MachineLimits(64, GIB // 2, None), GIB, (1, "memory")),
        (MachineLimits(64, 64 * GIB, 100), GIB // 5, (6, "process limit")),
        (MachineLimits(64, None, 3), GIB // 5, (1, "process limit")),
    ],
)
def test_the_tightest_bound_decides(limits: MachineLimits, peak: int, expected: tuple[int, str]) -> None:
    jobs = plan_jobs(["a", "b"], {"a": peak, "b": peak // 2}, limits)
    assert (jobs.count, jobs.reason) == expected


def test_the_option_wins_over_every_bound() -> None:
    jobs = plan_jobs(["a"], {"a": GIB}, MachineLimits(2, GIB, 10), asked=40)
    assert (jobs.count, jobs.reason) == (40, "-j")


def test_edges_never_measured_count_with_an_assumed_peak() -> None:
    assert plan_jobs(["a"], {}, MachineLimits(64, 4 * GIB, None)).count == 7


def test_heavy_edges_share_a_pool_as_deep_as_memory_allows() -> None:
    peaks = {"h1": 3 * GIB, "h2": 4 * GIB, "h3": 3 * GIB, "light": GIB // 4}
    jobs = plan_jobs(list(peaks), peaks, MachineLimits(16, 12 * GIB, None))
    assert jobs.heavy == {"h1", "h2", "h3"}
    assert jobs.heavy_depth == 2
    assert (jobs.count, jobs.reason) == (6, "memory")  # 9 GiB: two heavy ones take 8, four light ones the rest


def test_a_heavy_edge_that_does_not_fit_still_runs_alone() -> None:
    jobs = plan_jobs(["h"], {"h": 40 * GIB}, MachineLimits(16, 8 * GIB, None))
    assert (jobs.count, jobs.heavy_depth) == (1, 1)
