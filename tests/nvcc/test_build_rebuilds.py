"""What a second build does after each kind of change."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sparkctl.build import PlanResult
from sparkctl.errors import WorkFailed
from sparkctl.registry import find_project
from sparkctl.runtime.manifest import read_manifest
from sparkctl.toolchain import find_toolchain, run_tool

pytestmark = pytest.mark.nvcc

UP_TO_DATE = {"alpha.n1": "up to date", "alpha.n2": "up to date", "beta.n1": "up to date"}


def statuses(result: PlanResult) -> dict[str, str]:
    return {edge.name: edge.status for edge in result.edges if edge.is_variant}


def ninja_says(project) -> str:
    """What ninja itself thinks of the folder, with its explanation."""
    ninja_file = project.folder().relative_to(project.root) / "build.ninja"
    ninja = find_toolchain(environ=project.environ).require_ninja()
    return run_tool([ninja, "-f", str(ninja_file), "-n", "-d", "explain"], cwd=project.root).output


def set_old(path: Path) -> None:
    long_ago = time.time() - 1e7
    os.utime(path, (long_ago, long_ago))


def test_a_second_build_does_nothing(built) -> None:
    assert statuses(built.build()) == UP_TO_DATE
    said = ninja_says(built)
    assert "no work to do" in said, said


def test_a_bare_touch_compiles_nothing(built) -> None:
    (built.root / "csrc/alpha.cu").touch()
    after = statuses(built.build())
    assert "built" not in after.values()
    assert after["beta.n1"] == "up to date"
    assert statuses(built.build()) == UP_TO_DATE


def test_touching_a_header_rebuilds_only_its_includers(built) -> None:
    built.write("csrc/common/scale.h", "#define SCALE 5.0f\n")
    result = built.build()
    assert statuses(result) == {"alpha.n1": "built", "alpha.n2": "built", "beta.n1": "up to date"}
    assert result.edges[0].reason == "csrc/common/scale.h changed"
    assert result.linked


def test_an_edited_kernel_of_ours_rebuilds_its_own_objects_and_explain_names_them(tmp_path: Path) -> None:
    if find_toolchain().nvcc is None:
        pytest.skip("no nvcc: pip install 'sparkctl[toolchain]'")
    project = find_project(None)
    shutil.copytree(project / "csrc", tmp_path / "csrc")
    shutil.copy(project / "flags.yaml", tmp_path)
    variants = ["fa_split_gqa.bf16.d32", "fa_split_gqa.bf16.d32.s1", "attn_decode_split_kv.bf16.d32"]

    def build() -> list[list[str]]:
        """The rows that `build --explain` prints, of what it made."""
        command = [sys.executable, "-m", "sparkctl.cli.app", "build", *variants, "--arch", "sm_90", "--explain"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=500)
        assert done.returncode == 0, done.stderr
        table = done.stdout.partition("cuda-sm_90-release: ")[0]
        return [line.split(maxsplit=3) for line in table.splitlines()[1:]]

    made = {row[0] for row in build()}
    assert {*variants, "binding/decode"} <= made
    assert build() == []
    body = tmp_path / "csrc/attention/split_gqa.cuh"
    body.write_text(body.read_text() + f'// {tmp_path}\nstatic_assert(sizeof(int) == 4, "{tmp_path}");\n')
    rows = build()
    assert [row[0] for row in rows] == ["fa_split_gqa.bf16.d32.s1", "fa_split_gqa.bf16.d32"]
    assert all(row[1] == "built" and row[3] == "csrc/attention/split_gqa.cuh changed" for row in rows)


def test_an_edit_with_an_old_mtime_rebuilds(built) -> None:
    set_old(built.write("csrc/common/scale.h", "#define SCALE 7.0f\n"))
    assert statuses(built.build()) == {"alpha.n1": "built", "alpha.n2": "built", "beta.n1": "up to date"}
    assert statuses(built.build()) == UP_TO_DATE


def test_an_edit_that_is_undone_comes_back_from_the_cache(built) -> None:
    source = built.root / "csrc/beta.cu"
    before = source.read_text()
    source.write_text(before.replace("+=", "-="))
    assert statuses(built.build())["beta.n1"] == "built"
    source.write_text(before)
    assert statuses(built.build())["beta.n1"] == "cached"


@pytest.mark.parametrize("suffix", ["o", "ptxas"])
def test_a_deleted_output_is_made_again(built, suffix: str) -> None:
    lost = built.folder() / "obj" / f"beta.n1.{suffix}"
    before = lost.read_bytes() if suffix == "ptxas" else None
    lost.unlink()
    result = built.build()
    assert statuses(result) == {**UP_TO_DATE, "beta.n1": "cached"}
    assert next(edge.reason for edge in result.edges if edge.name == "beta.n1") == (f"beta.n1.{suffix} is missing")
    assert before is None or lost.read_bytes() == before


def test_a_changed_flag_reaches_only_its_kernels(built) -> None:
    registry = (built.root / "flags.yaml").read_text()
    built.write("flags.yaml", registry.replace("default: 1", "default: 2"))
    result = built.build()
    assert statuses(result) == {"alpha.n1": "built", "alpha.n2": "built", "beta.n1": "up to date"}
    assert result.edges[0].reason == "options changed: without -DTINY_LEVEL=1, with -DTINY_LEVEL=2"


def test_a_changed_comment_in_the_registry_rebuilds_nothing(built) -> None:
    registry = (built.root / "flags.yaml").read_text()
    built.write("flags.yaml", "# a remark\n" + registry)
    assert statuses(built.build()) == UP_TO_DATE


def test_a_subset_keeps_the_rest_in_the_library(built) -> None:
    result = built.build("beta")
    assert statuses(result) == {"beta.n1": "up to date"}
    assert result.kept == ("alpha.n1", "alpha.n2")
    assert not result.linked
    assert manifest_names(built) == ["alpha.n1", "alpha.n2", "beta.n1"]


def test_a_subset_drops_what_is_out_of_date_and_building_it_brings_it_back(built) -> None:
    built.write("csrc/common/scale.h", "#define SCALE 9.0f\n")
    result = built.build("beta")
    assert result.dropped == ("alpha.n1", "alpha.n2")
    assert manifest_names(built) == ["beta.n1"]
    built.build()
    assert manifest_names(built) == ["alpha.n1", "alpha.n2", "beta.n1"]


def test_a_kernel_that_left_the_registry_leaves_the_library(built) -> None:
    registry = (built.root / "flags.yaml").read_text()
    built.write("flags.yaml", registry[: registry.index("  beta:")])
    built.build()
    assert manifest_names(built) == ["alpha.n1", "alpha.n2"]


def test_the_manifest_holds_registers_and_blocks(built) -> None:
    manifest = read_manifest(built.folder())
    assert manifest.arch == "sm_90"
    assert manifest.compiler.startswith("nvcc ")
    for variant in manifest.variants:
        assert variant.registers is not None
        assert 8 <= variant.registers <= 32
        assert variant.blocks_per_sm == 32


def test_compile_commands_cover_every_variant_selected_or_not(built) -> None:
    built.build("beta")
    entries = json.loads((built.root / "build/compile_commands.json").read_text())
    assert [(entry["file"], entry["directory"]) for entry in entries] == [
        ("csrc/alpha.cu", str(built.root)),
        ("csrc/alpha.cu", str(built.root)),
        ("csrc/beta.cu", str(built.root)),
    ]
    assert entries[0]["arguments"][1:5] == ["-x", "cu", "-c", "csrc/alpha.cu"]


def test_the_library_shows_none_of_its_symbols(built) -> None:
    beta = (built.root / "csrc/beta.cu").read_text()
    built.write("csrc/beta.cu", beta + "int a_helper_on_the_host() { return 1; }\n")
    built.build()
    exported = run_tool(["nm", "-D", "--defined-only", built.folder() / "libsparkctl.so"]).stdout
    assert "alpha" not in exported
    assert "a_helper" not in exported
    assert "cuda" not in exported


def test_a_warning_of_the_compiler_is_shown_though_the_log_took_it(built) -> None:
    beta = (built.root / "csrc/beta.cu").read_text()
    built.write("csrc/beta.cu", beta + "static void unused_function() {}\n")
    (warning,) = built.build().warnings
    assert 'csrc/beta.cu(3): warning #177-D: function "unused_function" was declared but never referenced' in warning


def test_a_lost_manifest_is_written_again(built) -> None:
    manifest = built.folder() / "manifest.json"
    before = manifest.read_text()
    manifest.unlink()
    assert statuses(built.build()) == UP_TO_DATE
    assert manifest.read_text() == before


def test_a_lost_library_is_linked_again(built) -> None:
    (built.folder() / "libsparkctl.so").unlink()
    result = built.build()
    assert statuses(result) == UP_TO_DATE
    assert result.linked


def test_a_lost_state_file_costs_cache_hits_only(built) -> None:
    (built.folder() / "state.json").unlink()
    assert set(statuses(built.build()).values()) == {"cached"}
    assert statuses(built.build()) == UP_TO_DATE


def test_two_libraries_of_two_flag_sets_lie_in_two_folders(built) -> None:
    other = built.build("beta", sets={"extra": "-DUNUSED=1"})
    assert other.folder != built.folder()
    assert other.library.exists()
    assert statuses(built.build()) == UP_TO_DATE


def test_device_code_of_another_arch_than_asked_is_refused(tiny) -> None:
    with pytest.raises(WorkFailed, match="holds code for sm_80, sm_90, asked was sm_90"):
        tiny.build("beta", sets={"extra": "-gencode=arch=compute_80,code=sm_80"})


def manifest_names(project) -> list[str]:
    return [variant.name for variant in read_manifest(project.folder()).variants]
