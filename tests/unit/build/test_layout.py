"""What lies in a build folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkctl.build.layout import inner_trees, library_folders, lock_folders, variant_of


@pytest.mark.parametrize("suffix", ["o", "o.stats", "o.d", "ptxas", "sass", "ptx"])
def test_a_file_belongs_to_its_variant(suffix: str) -> None:
    assert variant_of(f"attn_split.bf16.d64.{suffix}") == "attn_split.bf16.d64"


@pytest.mark.parametrize("name", ["notes.txt", "o", ".o", "core.1234"])
def test_other_files_belong_to_no_variant(name: str) -> None:
    assert variant_of(name) is None


def test_folders_are_known_by_their_names(tmp_path: Path) -> None:
    commit, arm = "a" * 40, "0123456789ab"
    locks = ("", f"arms/{arm}", f"revisions/{commit}/build", f"revisions/{commit}/build/arms/{arm}")
    for name in (*locks, "cuda-sm_90a-release", "cuda-sm_90a-fast-race-01234567", "cuda-notes", "arms/mine"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    for name in locks:
        (tmp_path / name / ".lock").touch()
    (tmp_path / "revisions" / f".{commit}.12.tmp").mkdir()
    assert [path.name for path in library_folders(tmp_path)] == [
        "cuda-sm_90a-fast-race-01234567",
        "cuda-sm_90a-release",
    ]
    assert [path.name for path in inner_trees(tmp_path)] == [arm, f".{commit}.12.tmp", commit]
    assert list(lock_folders(tmp_path)) == [tmp_path / name for name in locks]
