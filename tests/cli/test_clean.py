"""`sparkctl clean`: what goes, what stays, and who is not disturbed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sparkctl.cli.app import main
from sparkctl.workflows import clean as clean_workflow

SAMPLE = (Path(__file__).parents[1] / "data" / "registry" / "sample.yaml").read_text(encoding="utf-8")
COMMIT, ARM, GONE = "a" * 40, "0123456789ab", 2**22 + 1  # the last is above every process id
OUTPUTS = (
    "cuda-sm_90-release/obj/k_one.bf16.d64.o",
    f"arms/{ARM}/cuda-sm_90-release/libsparkctl.so",
    f"arms/{ARM}/.lock",
    f"revisions/{COMMIT}/flags.yaml",
    f"revisions/{COMMIT}/build/.lock",
    f"revisions/.{COMMIT}.{GONE}.tmp/flags.yaml",
    ".links/gone",
    "compile_commands.json",
    f".compile_commands.json.{GONE}.tmp",
)
RESULTS = ("regs/before/sm_90.json", "test/verdicts.json", "test/failures.json")
OTHERS = ("gpu/bench.json", "notes.txt", "arms/mine.txt", "test/notes.txt", "cuda-notes/a.txt")
HOLDER = """
import sys, time
from pathlib import Path
from sparkctl.build.locks import hold_lock
with hold_lock(Path(sys.argv[1]), say=print):
    print("held", flush=True)
    time.sleep(300)
"""
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The build folder of a project, with everything in it that clean knows, and things that it does not."""
    project = tmp_path / "project"
    (project / "csrc").mkdir(parents=True)
    (project / "flags.yaml").write_text(SAMPLE)
    for source in ("one.cu", "two.cu"):
        (project / "csrc" / source).touch()
    monkeypatch.chdir(project)
    monkeypatch.delenv("SPARKCTL_BUILD_DIR", raising=False)
    for name in (*OUTPUTS, *RESULTS, *OTHERS):
        path = project / "build" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    return project / "build"


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_symlink() or path.is_file()}


def start_holder(folder: Path) -> subprocess.Popen[str]:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(folder)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_outputs_go_and_results_and_other_files_stay(build: Path, capsys: Capture) -> None:
    assert main(["clean"]) == 0
    assert files(build) == {".lock", *RESULTS, *OTHERS}
    assert not (build / "revisions").exists()
    assert f"{build}: 7 things removed, " in capsys.readouterr().out
    assert main(["clean"]) == 0
    assert capsys.readouterr().out.endswith(f"{build}: nothing to remove\n")


def test_results_go_where_that_is_asked(build: Path) -> None:
    assert main(["clean", "--results"]) == 0
    assert files(build) == {".lock", *OTHERS}
    assert not (build / "regs").exists()


SCREEN = f"""\
would remove is size
cuda-sm_90-release library SIZE
arms/{ARM} arm SIZE
stays: gpu (not made by a build)
stays: test/verdicts.json (a result: --results removes it)
BUILD: 2 things to remove, SIZE; nothing was touched
"""


def test_a_dry_run_says_it_and_touches_nothing(build: Path, capsys: Capture) -> None:
    before = files(build)
    assert main(["clean", "--dry-run", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert files(build) == before
    assert data["dry_run"] is True
    assert data["freed_bytes"] == sum(item["size_bytes"] for item in data["removed"]) > 0
    kinds = {item["path"]: item["kind"] for item in data["removed"]}
    assert kinds == {
        "cuda-sm_90-release": "library",
        f"arms/{ARM}": "arm",
        f"revisions/{COMMIT}": "revision",
        f"revisions/.{COMMIT}.{GONE}.tmp": "revision",
        ".links": "support",
        "compile_commands.json": "support",
        f".compile_commands.json.{GONE}.tmp": "support",
    }
    assert {item["path"] for item in data["kept"]} == {*RESULTS, "gpu", "notes.txt", "cuda-notes"}


def test_the_screen(build: Path, capsys: Capture) -> None:
    for name in ("revisions", ".links", "compile_commands.json", f".compile_commands.json.{GONE}.tmp"):
        assert clean_workflow._remove(build / name) is None
    for name in ("notes.txt", "cuda-notes", "regs", "test/failures.json"):
        assert clean_workflow._remove(build / name) is None
    assert main(["clean", "--dry-run"]) == 0
    said = capsys.readouterr().out.replace(str(build), "BUILD")
    assert re.sub(r" {2,}", " ", re.sub(r"[\d.]+ (B|KiB)", "SIZE", said)) == SCREEN


def test_a_build_that_runs_is_not_disturbed(build: Path, capsys: Capture) -> None:
    before = files(build)
    holder = start_holder(build)
    try:
        assert main(["clean"]) == 1
        said = capsys.readouterr().err
        assert said.startswith(f"error: a build runs in {build}: process {holder.pid} on ")
        assert said.endswith("hint: wait until it has ended\n")
        assert files(build) - {".lock", ".lock.owner"} == before
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert main(["clean"]) == 0  # what is left of a killed one is no lock


def test_a_build_of_a_revision_that_runs_is_not_disturbed(build: Path, capsys: Capture) -> None:
    holder = start_holder(build / "revisions" / COMMIT / "build")
    try:
        assert main(["clean"]) == 1
        said = capsys.readouterr()
        inner = build / "revisions" / COMMIT / "build"
        assert f"not removed: revisions/{COMMIT} (a build runs in {inner}: process {holder.pid} on " in said.out
        assert said.err.startswith("error: 1 thing could not be removed\n")
        assert (build / "revisions" / COMMIT / "flags.yaml").exists()
        assert not (build / "cuda-sm_90-release").exists()
    finally:
        holder.terminate()
        holder.wait()


def test_links_are_removed_and_what_they_point_to_is_not(build: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "obj").mkdir(parents=True)
    (elsewhere / "obj" / "precious.o").touch()
    (build / "cuda-sm_80-release").symlink_to(elsewhere)
    (build / ".links" / "toolkit").symlink_to(elsewhere)
    assert main(["clean"]) == 0
    assert files(elsewhere) == {"obj/precious.o"}
    assert not (build / "cuda-sm_80-release").is_symlink()


def test_a_folder_that_another_tree_was_built_in_last_is_left_alone(
    build: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    build.rename(shared)
    monkeypatch.setenv("SPARKCTL_BUILD_DIR", str(shared))
    other = tmp_path / "other tree"
    (shared / "compile_commands.json").write_text(json.dumps([{"directory": str(other)}]))
    before = files(shared)
    for option in ((), ("--vanished",), ("--dry-run",)):
        assert main(["clean", *option]) == 2
        assert capsys.readouterr().err.startswith(f"error: {shared} was last built from {other}, not from ")
    assert files(shared) == before
    (shared / "compile_commands.json").write_text(json.dumps([{"directory": str(Path.cwd())}]))
    assert main(["clean"]) == 0
    assert not (shared / "cuda-sm_90-release").exists()


def test_only_what_the_registry_no_longer_has_goes(build: Path) -> None:
    library = build / "cuda-sm_90-release"
    (library / "code").mkdir()
    gone = {f"obj/k_one.bf16.d512.{suffix}" for suffix in ("o", "o.stats", "ptxas")} | {"code/k_old.sass"}
    stays = {"obj/k_one.bf16.d64.o", "code/k_one.bf16.d64.ptx", "obj/notes.txt", "obj/binding/decode.o"}
    for name in gone | stays:
        (library / name).parent.mkdir(exist_ok=True)
        (library / name).touch()
    before = files(build)
    assert main(["clean", "--vanished"]) == 0
    assert files(build) - {".lock"} == before - {f"cuda-sm_90-release/{name}" for name in gone}


def test_nothing_built_is_nothing_to_remove(build: Path, capsys: Capture) -> None:
    assert clean_workflow._remove(build) is None
    assert main(["clean"]) == 0
    assert capsys.readouterr().out == f"{build}: nothing to remove\n"
    assert not build.exists()


def test_what_cannot_be_removed_is_named_and_the_rest_goes(
    build: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def refuse(self: Path, target: Path) -> Path:
        if self.name == ARM:
            raise PermissionError(13, os.strerror(13), str(self))
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    assert main(["clean"]) == 1
    said = capsys.readouterr()
    assert f"not removed: arms/{ARM} ({build / 'arms' / ARM}: Permission denied)" in said.out
    assert not (build / "cuda-sm_90-release").exists()


def test_a_clean_that_was_killed_half_way_is_finished_by_the_next(build: Path) -> None:
    (build / "cuda-sm_90-release").rename(build / ".removed-cuda-sm_90-release")
    assert main(["clean"]) == 0
    assert files(build) == {".lock", *RESULTS, *OTHERS}
