"""Where a project is built."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkctl.runtime.locate import build_root_of


@pytest.mark.parametrize("mark", ["CMakeCache.txt", "meson-info", "build.ninja", "Makefile"])
def test_a_folder_of_another_build_system_is_left_alone(mark: str, tmp_path: Path) -> None:
    assert build_root_of(tmp_path, {}) == tmp_path / "build"
    (tmp_path / "build").mkdir()
    assert build_root_of(tmp_path, {}) == tmp_path / "build"
    (tmp_path / "build" / mark).touch()
    assert build_root_of(tmp_path, {}) == tmp_path / "build-sparkctl"


def test_a_folder_that_is_named_comes_first(tmp_path: Path) -> None:
    assert build_root_of(tmp_path, {"SPARKCTL_BUILD_DIR": str(tmp_path / "x")}) == tmp_path / "x"
