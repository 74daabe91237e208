"""What doctor says of a project, its build folder, its lock and the room for builds."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from sparkctl.build.limits import MachineLimits
from sparkctl.workflows import doctor_places
from sparkctl.workflows.doctor_places import look_at_places
from sparkctl.workflows.finding import Finding

SAMPLE = (Path(__file__).parents[2] / "data" / "registry" / "sample.yaml").read_text(encoding="utf-8")
HOLDER = """
import subprocess, sys, time
from pathlib import Path
from sparkctl.build.locks import hold_lock
with hold_lock(Path(sys.argv[1]), say=print) as descriptor:
    child = subprocess.Popen(["sleep", "300"], pass_fds=[descriptor])
    print(child.pid, flush=True)
    time.sleep(300)
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "SPARKCTL_CACHE_DIR": str(tmp_path / "cache")}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "csrc").mkdir(parents=True)
    (folder / "flags.yaml").write_text(SAMPLE)
    for source in ("one.cu", "two.cu"):
        (folder / "csrc" / source).touch()
    return folder


def by_name(findings: Iterable[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings}


def test_a_project_that_is_well(project: Path, environ: dict[str, str]) -> None:
    findings = by_name(look_at_places(project, environ))
    assert {name: finding.state for name, finding in findings.items()} == dict.fromkeys(
        ("project", "build folder", "lock", "cache folder", "memory"), "ok"
    )
    assert not (project / "build").exists()


def test_a_broken_registry_is_an_error(project: Path, environ: dict[str, str]) -> None:
    (project / "flags.yaml").write_text("version: 1\nkernels: 3\n")
    found = by_name(look_at_places(project, environ))["project"]
    assert (found.state, found.fix) == ("error", "sparkctl flags check lists everything that is wrong")


def test_no_room_and_a_file_in_the_way_are_errors(
    project: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "build").write_text("")
    found = by_name(look_at_places(project, environ))["build folder"]
    assert (found.state, found.what) == ("error", f"{project / 'build'} is not a folder")
    (project / "build").unlink()
    for free, state in ((50 << 20, "error"), (500 << 20, "warning"), (5 << 30, "ok")):
        usage = shutil._ntuple_diskusage(free, 0, free)
        monkeypatch.setattr(doctor_places.shutil, "disk_usage", lambda _, usage=usage: usage)
        assert by_name(look_at_places(project, environ))["build folder"].state == state


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_disk_that_takes_no_byte_is_found_by_writing(
    project: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_places.tempfile, "TemporaryFile", lambda dir: open("/dev/full", "wb", buffering=0))  # noqa: PTH123, SIM115
    found = by_name(look_at_places(project, environ))["build folder"]
    assert (found.state, found.what) == ("error", "no space left")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_cache_folder_is_a_warning_each(
    project: Path, environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_places.tempfile, "TemporaryFile", lambda dir: open("/dev/full", "wb", buffering=0))  # noqa: PTH123, SIM115
    findings = by_name(look_at_places(project, {**environ, "CCACHE_DIR": str(tmp_path / "elsewhere")}))
    assert (findings["cache folder"].state, findings["cache room"].state) == ("warning", "warning")
    assert str(findings["cache room"].fix).endswith("CCACHE_DIR")


def test_memory_for_less_than_one_compile_is_a_warning(environ: dict[str, str]) -> None:
    (found,) = doctor_places._look_at_memory(environ, MachineLimits(4, 100 << 20, None))
    assert found.state == "warning"
    assert found.what == "1 compiler at once (memory), 4 cpus, heaviest compile 400 MiB (assumed), 100 MiB free"


def lock_of(project: Path, environ: dict[str, str]) -> Finding:
    return by_name(look_at_places(project, environ))["lock"]


def test_a_lock_is_held_then_by_orphans_then_left_behind(project: Path, environ: dict[str, str]) -> None:
    build = project / "build"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(build)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    child = int(holder.stdout.readline())
    try:
        held = lock_of(project, environ)
        assert (held.state, held.what.partition(",")[0]) == ("ok", f"held by process {holder.pid}")
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        orphaned = lock_of(project, environ)
        assert orphaned.state == "warning"
        assert f"process {holder.pid} was killed, and what it started still holds the lock: sleep ({child})" in (
            orphaned.what
        )
        assert orphaned.fix == f"it ends by itself, or: kill {child}"
    finally:
        holder.kill()
        os.kill(child, signal.SIGKILL)
    wait_until_gone(child)
    left = lock_of(project, environ)
    assert left.state == "warning"
    assert left.what == f"free; process {holder.pid} was killed in a build and left its name"
    assert f"rm {build / '.lock.owner'}" in str(left.fix)


def wait_until_gone(pid: int) -> None:
    for _ in range(200):
        stat = Path(f"/proc/{pid}/stat")
        if not stat.exists() or stat.read_text().split()[2] == "Z":
            return
        time.sleep(0.01)
