"""A manifest survives the round trip, and a bad one is an error that names the file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sparkctl.arch import Arch
from sparkctl.errors import MissingTool, SparkctlError
from sparkctl.runtime import (
    BuiltVariant,
    Manifest,
    RuntimeFlag,
    find_library_folder,
    load_library,
    read_manifest,
    write_manifest,
)

VARIANT = BuiltVariant(
    "k.bf16.d64",
    "k",
    "decode",
    {"dtype": "bf16", "head_dim": 64},
    {"group": (1, 64), "kv_len": (0, None)},
    128,
    0,
    16,
    40,
    8,
)
MANIFEST = Manifest("libsparkctl.so", "cuda", "sm_90", "release", {}, "digest", "nvcc 13.0", (VARIANT,))


def test_a_manifest_reads_back_as_it_was_written(tmp_path: Path) -> None:
    write_manifest(tmp_path, MANIFEST)
    assert read_manifest(tmp_path) == MANIFEST


def test_flags_that_are_read_at_each_call_read_back_too(tmp_path: Path) -> None:
    flags = (
        RuntimeFlag("FAPIPE", "bool", None, None, {"fa": "1"}),
        RuntimeFlag("depth", "int", None, (1, None), {"fa": "2"}),
        RuntimeFlag("mode", "str", ("fast", "exact"), None, {}),
    )
    write_manifest(tmp_path, replace(MANIFEST, runtime_flags=flags))
    assert read_manifest(tmp_path).runtime_flags == flags


def test_an_unchanged_manifest_is_not_written_again(tmp_path: Path) -> None:
    write_manifest(tmp_path, MANIFEST)
    before = (tmp_path / "manifest.json").stat().st_mtime_ns
    write_manifest(tmp_path, MANIFEST)
    assert (tmp_path / "manifest.json").stat().st_mtime_ns == before


@pytest.mark.parametrize("text", ["", "{}", "[1]", "null", "7", '{"schema_version": 99}'])
def test_an_unreadable_manifest_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(SparkctlError) as caught:
        read_manifest(tmp_path)
    assert str(tmp_path / "manifest.json") in str(caught.value)


def test_a_missing_library_names_the_command_that_builds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparkctl.runtime.locate.build_roots", lambda: (tmp_path,))
    with pytest.raises(MissingTool) as caught:
        find_library_folder("cuda", Arch(9, 0))
    assert caught.value.hint == "sparkctl build --backend cuda --arch sm_90"


def test_the_arch_specific_library_comes_before_the_plain_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparkctl.runtime.locate.build_roots", lambda: (tmp_path,))
    for name in ("cuda-sm_90-release", "cuda-sm_90a-release"):
        (tmp_path / name).mkdir()
        write_manifest(tmp_path / name, MANIFEST)
    assert find_library_folder("cuda", Arch(9, 0)).name == "cuda-sm_90a-release"


def test_a_manifest_without_its_library_is_an_error(tmp_path: Path) -> None:
    write_manifest(tmp_path, MANIFEST)
    with pytest.raises(SparkctlError, match="is missing"):
        load_library(tmp_path)


def test_a_manifest_that_is_no_text_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes(b"\xff\xfe")
    write_manifest(tmp_path, MANIFEST)
    assert read_manifest(tmp_path) == MANIFEST
