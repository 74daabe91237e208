"""What a good flags.yaml becomes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkctl.arch import parse_arch
from sparkctl.errors import UsageError
from sparkctl.registry import Location, Range, Registry, find_project, load_registry

ROOT = Path(__file__).parents[3]


def test_the_registry_of_this_project_loads() -> None:
    registry = load_registry(ROOT)
    assert registry.root == ROOT
    assert {"release", "debug", "lineinfo"} <= set(registry.profiles)


def test_a_profile_holds_what_it_extends(registry: Registry) -> None:
    debug = registry.profiles["debug"]
    assert debug.nvcc == ("-O3", "--extra-device-vectorization", "-lineinfo")
    assert (debug.ptxas, debug.host) == (("-v",), ("-O3",))
    assert (debug.define, debug.set) == ({"SPARK_CHECKS": "1"}, {"fast": "0"})
    assert [debug.locations[f"nvcc:{index}"].line for index in range(3)] == [5, 5, 10]
    assert debug.locations["set:fast"] == Location("flags.yaml", 12)


def test_a_profile_drops_what_it_removes(registry_of: Callable[[str], Registry], sample_text: str) -> None:
    text = sample_text.replace("extends: release", "extends: release\n    remove: {nvcc: [-O3]}")
    assert registry_of(text).profiles["debug"].nvcc == ("--extra-device-vectorization", "-lineinfo")


def test_a_kernel_is_read_whole(registry: Registry) -> None:
    kernel = registry.kernels["k_one"]
    assert [axis.name for axis in kernel.axes] == ["dtype", "head_dim", "stages"]
    assert kernel.min_arch == parse_arch("sm_80")
    assert kernel.accepts == {"group": Range(1, 64), "kv_len": Range(0, None)}
    assert kernel.nvcc == {"*": ("-Wno-a",), "sm_90": ("-Wno-b",)}
    assert kernel.location == Location("flags.yaml", 29)


def test_truth_values_and_numbers_are_stored_as_canonical_text(
    registry_of: Callable[[str], Registry], sample_text: str
) -> None:
    text = sample_text.replace("default: 1\n", "default: true\n", 1).replace("blocks: 2", "blocks: '+02'")
    registry = registry_of(text)
    assert registry.flags["fast"].default == "1"
    assert registry.kernels["k_one"].set == {"blocks": "2"}


def test_option_values_may_be_written_as_yaml_truth_values(
    registry_of: Callable[[str], Registry], sample_text: str
) -> None:
    registry = registry_of(sample_text.replace("{1: [--use_fast_math], 0: []}", "{on: [--use_fast_math], off: []}"))
    assert registry.flags["fast"].options == {"1": ("--use_fast_math",), "0": ()}


def test_anchors_and_merge_keys_can_be_used(registry_of: Callable[[str], Registry], sample_text: str) -> None:
    head, _, _ = sample_text.partition("  k_two:\n")
    text = head.replace("  k_one:", "  k_one: &base") + "  k_two:\n    <<: *base\n    source: csrc/two.cu\n"
    assert registry_of(text).kernels["k_two"].axes == registry_of(text).kernels["k_one"].axes


def test_a_merged_map_can_be_used_again(registry_of: Callable[[str], Registry], sample_text: str) -> None:
    text = sample_text.replace("  debug:\n", "  debug: &debug\n    <<: &base {doc: x}\n    doc: y\n")
    text = text.replace("flags:\n", "  other: *debug\n  third: {<<: [{doc: first}, *base]}\nflags:\n", 1)
    profiles = registry_of(text).profiles
    assert [profiles[name].doc for name in ("debug", "other", "third")] == ["y", "y", "first"]


def test_a_lenient_load_leaves_absent_sources_and_names_to_the_check(tmp_path: Path, sample_text: str) -> None:
    (tmp_path / "flags.yaml").write_text(sample_text.replace("k_[a-z]+", "x_[a-z]+"), encoding="utf-8")
    with pytest.raises(UsageError):
        load_registry(tmp_path)
    assert set(load_registry(tmp_path, strict=False).kernels) == {"k_one", "k_two"}


def test_a_project_is_found_from_a_folder_inside_it(tmp_path: Path) -> None:
    (tmp_path / "flags.yaml").touch()
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert find_project(tmp_path / "a" / "b") == tmp_path.resolve()


def test_the_current_folder_comes_before_the_packaged_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_project(None) == ROOT
    (tmp_path / "flags.yaml").touch()
    assert find_project(None) == tmp_path.resolve()


@pytest.mark.parametrize("kind", ["a folder", "a link", "not a file"])
@pytest.mark.parametrize("named", [True, False], ids=["named", "current"])
def test_a_registry_that_is_no_file_is_refused_and_nothing_stands_in_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, named: bool
) -> None:
    file = tmp_path.resolve() / "flags.yaml"
    if kind == "a folder":
        file.mkdir()
    elif kind == "a link":
        file.symlink_to("absent")
    else:
        os.mkfifo(file)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=re.escape(f"{file}: {kind}")):
        find_project(tmp_path if named else None)


def test_a_registry_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "flags.yaml")
    with pytest.raises(UsageError, match="not a file"):
        load_registry(tmp_path)


def test_a_named_folder_without_a_registry_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no flags\.yaml in"):
        find_project(tmp_path)
    with pytest.raises(UsageError, match="no such folder"):
        find_project(tmp_path / "absent")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "flags.yaml").touch(mode=0)
    with pytest.raises(UsageError, match="Permission denied"):
        load_registry(tmp_path)
