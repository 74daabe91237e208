"""Where ncu is looked for, and in which order."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkctl.errors import MissingTool
from sparkctl.toolchain.ncu import find_ncu


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_the_order_is_the_variable_then_path_then_the_toolkit_then_the_newest_installed(tmp_path: Path) -> None:
    opt = tmp_path / "opt"
    program(opt / "2025.3.1" / "ncu")
    newest = program(opt / "2025.10.0" / "ncu")
    environ = {"PATH": str(tmp_path / "bin"), "CUDA_HOME": str(tmp_path / "cuda")}
    assert find_ncu(environ, installed=opt) == newest
    beside = program(tmp_path / "cuda" / "nsight-compute-2025.1" / "ncu")
    assert find_ncu(environ, installed=opt) == beside
    in_bin = program(tmp_path / "cuda" / "bin" / "ncu")
    assert find_ncu(environ, installed=opt) == in_bin
    on_path = program(tmp_path / "bin" / "ncu")
    assert find_ncu(environ, installed=opt) == on_path
    own = program(tmp_path / "own" / "my-ncu")
    assert find_ncu({**environ, "SPARKCTL_NCU": str(own)}, installed=opt) == own
    assert find_ncu({**environ, "SPARKCTL_NCU": "ncu"}, installed=opt) == on_path


def test_without_one_the_error_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(MissingTool) as caught:
        find_ncu({"PATH": "", "CUDA_HOME": "/none"}, installed=tmp_path)
    assert caught.value.message == (
        "no ncu (Nsight Compute): looked at SPARKCTL_NCU (not set), PATH, CUDA_HOME (/none), CUDA_PATH (not set) "
        f"and {tmp_path}/*/ncu"
    )


def test_a_named_one_that_is_no_program_is_not_passed_over(tmp_path: Path) -> None:
    program(tmp_path / "opt" / "1.0" / "ncu")
    (tmp_path / "ncu").write_text("no program", encoding="utf-8")
    with pytest.raises(MissingTool, match="which is no program"):
        find_ncu({"PATH": "", "SPARKCTL_NCU": str(tmp_path / "ncu")}, installed=tmp_path / "opt")
