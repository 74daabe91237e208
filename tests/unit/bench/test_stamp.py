"""The revision: from git where there is history, else from the stamp file."""

import json
import subprocess
from pathlib import Path

import pytest

from sparkctl.bench.results import Stamp
from sparkctl.errors import MissingTool
from sparkctl.workflows import stamp
from sparkctl.workflows.stamp import STAMP_FILE, read_stamp


def git(root: Path, *args: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", "-C", root, *identity, *args], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    (tmp_path / "csrc").mkdir()
    (tmp_path / "csrc/a.cu").write_text("one\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    return tmp_path


def test_a_clean_checkout_gives_its_commit(repository: Path) -> None:
    found = read_stamp(repository)
    assert found == Stamp(git(repository, "rev-parse", "--short=12", "HEAD").strip(), False)


def test_an_edited_or_new_source_makes_it_dirty(repository: Path) -> None:
    (repository / "csrc/b.cu").write_text("new\n")
    assert read_stamp(repository).dirty is True


def test_a_new_result_does_not_make_it_dirty(repository: Path) -> None:
    (repository / "benchmarks").mkdir()
    (repository / "benchmarks/r.json").write_text("{}")
    assert read_stamp(repository).dirty is False


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    return tmp_path


def test_without_history_the_stamp_file_tells(bare: Path) -> None:
    (bare / STAMP_FILE).write_text(json.dumps({"commit": "0123456789ab", "dirty": True}))
    assert read_stamp(bare) == Stamp("0123456789ab", True)


def test_history_wins_over_the_stamp_file(repository: Path) -> None:
    (repository / STAMP_FILE).write_text(json.dumps({"commit": "old", "dirty": True}))
    assert read_stamp(repository).commit != "old"


@pytest.mark.parametrize("text", ["", "[]", '{"commit": "x"}', "not json"])
def test_a_broken_stamp_file_tells_nothing(bare: Path, text: str) -> None:
    (bare / STAMP_FILE).write_text(text)
    assert read_stamp(bare) == Stamp(None, None)


def test_a_machine_without_git_reads_the_file(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_git(*args: object, **options: object) -> None:
        raise MissingTool("cannot run git")

    monkeypatch.setattr(stamp, "run_tool", no_git)
    (bare / STAMP_FILE).write_text(json.dumps({"commit": "0123456789ab", "dirty": False}))
    assert read_stamp(bare) == Stamp("0123456789ab", False)
