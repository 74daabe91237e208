"""Plans: folders, what is selected and what is spare. Nothing on disk is touched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import sparkctl
from sparkctl.arch import parse_arch
from sparkctl.build import BuildPlan, default_build_root, plan_build, with_combines
from sparkctl.build.outputs import contents_digest, runtime_flags_of
from sparkctl.build.plan import folder_name
from sparkctl.errors import MissingTool, UsageError
from sparkctl.registry import Flag, Location, Registry, load_registry, select_variants
from sparkctl.toolchain import HostCompiler, Nvcc, Toolchain

PROJECT = Path(sparkctl.__file__).resolve().parent.parent
TOOLKIT = Path("/opt/cuda")
NVCC = Nvcc(TOOLKIT / "bin/nvcc", TOOLKIT, "13.0.88", "PATH", "", (), (), ("sm_80", "sm_90"), True, "abcdef0123456789")
HOST = HostCompiler(Path("/usr/bin/g++"), "g++ 12", "PATH", "g++ 12 x86_64")
HEADERS = (TOOLKIT / "include",)
TOOLCHAIN = Toolchain(NVCC, HOST, Path("/usr/bin/ninja"), None, None, HEADERS, Path("/nowhere"))
SM_90 = parse_arch("sm_90")


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_registry(PROJECT / "flags.yaml")


def plan(registry: Registry, *patterns: str, **changes: object) -> BuildPlan:
    options = {"arch": SM_90, "backend": "cuda", "toolchain": TOOLCHAIN, "environ": {}, **changes}
    return plan_build(registry, select_variants(registry, patterns, arch=SM_90), **options)


def test_the_folder_is_named_by_backend_arch_and_profile() -> None:
    assert folder_name("cuda", parse_arch("sm_90a"), "release", {}) == "cuda-sm_90a-release"
    assert folder_name("emulator", SM_90, "debug", {}) == "emulator-sm_90-debug"


def test_changed_flags_get_a_folder_of_their_own_whatever_their_order() -> None:
    one = folder_name("cuda", SM_90, "release", {"a": "1", "b": "2"})
    assert one.startswith("cuda-sm_90-release-")
    assert one == folder_name("cuda", SM_90, "release", {"b": "2", "a": "1"})
    assert one != folder_name("cuda", SM_90, "release", {"a": "1", "b": "3"})


def test_selected_variants_come_first_and_all_others_are_spare(registry: Registry) -> None:
    made = plan(registry, "attn_combine")
    variants = [edge.name for edge in made.edges if edge.variant]
    assert variants == [variant.name for variant in select_variants(registry, ["attn_combine"])]
    assert not set(variants) & set(made.spare)
    assert len(variants) + len(made.spare) == len(select_variants(registry, arch=SM_90))
    assert "binding/decode" in [edge.name for edge in made.edges]


def test_the_emulator_has_its_runtime_and_no_logs(registry: Registry) -> None:
    made = plan(registry, "attn_combine", backend="emulator")
    assert all(edge.log is None for edge in made.edges)
    assert any(edge.name.startswith("emulator/") for edge in made.edges)
    assert all("-DSPARK_EMULATOR=1" in edge.argv for edge in made.edges)


def test_the_runner_takes_the_same_objects_but_no_bindings(registry: Registry) -> None:
    for backend in ("cuda", "emulator"):
        without = plan(registry, "attn_combine", backend=backend)
        made = plan(registry, "attn_combine", backend=backend, runner=True)
        library, runner = made.links
        assert (without.runner, without.links) == (None, (library,))
        assert made.runner == f"build/{backend}-sm_90-release/sparkctl-runner"
        assert [edge for edge in made.edges if edge.group != "runner"] == list(without.edges)
        groups = {edge.group for edge in runner.taken(made.edges)}
        assert groups == {"", "runner"} | ({"emulator"} if backend == "emulator" else set())
        assert {edge.group for edge in library.taken(made.edges)} == {*groups - {"runner"}, "binding"}
        assert not any("tvm_ffi" in word for edge in runner.taken(made.edges) for word in edge.argv)
        assert ("-lcudart_static" in runner.argv) == (backend == "cuda")


def test_a_project_without_a_runner_says_so(registry: Registry, tmp_path: Path) -> None:
    elsewhere = replace(registry, root=tmp_path)
    with pytest.raises(UsageError, match="holds no sources: this project has no runner"):
        plan_build(elsewhere, [], arch=SM_90, backend="emulator", toolchain=TOOLCHAIN, environ={}, runner=True)


def test_each_decode_brings_the_combine_behind_it(registry: Registry) -> None:
    chosen = select_variants(registry, ["attn_decode_split_kv.bf16.d64", "attn_paged_decode_split_kv.fp16.d128"])
    names = [variant.name for variant in with_combines(registry, chosen)]
    assert names == [*(variant.name for variant in chosen), "attn_combine.bf16.d64", "attn_combine.fp16.d128"]
    combine = select_variants(registry, ["attn_combine.bf16.d64"])
    assert with_combines(registry, combine) == list(combine)


def test_a_variant_that_the_arch_cannot_run_is_refused(registry: Registry) -> None:
    largest = max(select_variants(registry, arch=SM_90), key=lambda variant: variant.dynamic_smem_bytes)
    known = replace(TOOLCHAIN, nvcc=replace(NVCC, gpu_codes=("sm_86", "sm_90")))
    with pytest.raises(UsageError, match="does not run on sm_86"):
        plan_build(registry, [largest], arch=parse_arch("sm_86"), backend="cuda", toolchain=known, environ={})


def test_an_arch_that_nvcc_does_not_list_is_refused(registry: Registry) -> None:
    with pytest.raises(UsageError, match="cannot compile for sm_120"):
        plan(registry, arch=parse_arch("sm_120"))


@pytest.mark.parametrize(("missing", "message"), [("nvcc", "no nvcc"), ("host", r"no g\+\+"), ("ninja", "no ninja")])
def test_a_missing_tool_is_named(registry: Registry, missing: str, message: str) -> None:
    with pytest.raises(MissingTool, match=message):
        plan(registry, toolchain=replace(TOOLCHAIN, **{missing: None}))


def test_the_emulator_needs_headers_but_no_nvcc(registry: Registry) -> None:
    without = replace(TOOLCHAIN, nvcc=None)
    assert plan(registry, backend="emulator", toolchain=without).edges
    with pytest.raises(MissingTool, match="no CUDA headers"):
        plan(registry, backend="emulator", toolchain=replace(without, cuda_include_dirs=()))


def test_variables_that_compilers_read_are_part_of_the_compiler(registry: Registry) -> None:
    plain = plan(registry).compiler_identity
    assert plan(registry, environ={"NVCC_APPEND_FLAGS": "-G"}).compiler_identity != plain
    assert plan(registry, environ={"EDITOR": "vi"}).compiler_identity == plain


def test_a_project_is_built_in_its_own_folder_and_the_packaged_one_in_the_cache(registry: Registry) -> None:
    environ = {"SPARKCTL_CACHE_DIR": "/cache"}
    assert default_build_root(registry, environ) == PROJECT / "build"
    package = Path(sparkctl.__file__).resolve().parent / "project"
    packaged = replace(registry, root=package, path=package / "flags.yaml")
    assert default_build_root(packaged, environ).parent == Path("/cache/builds")


FAPIPE = Flag(
    *("FAPIPE", "runtime", "bool", "1", "doc", "reason", ("attn_decode_*",), None, None, {}, {}),
    Location("flags.yaml", 1),
)


def test_a_flag_that_is_read_at_each_call_changes_no_folder_and_no_command(registry: Registry) -> None:
    others = {name: flag for name, flag in registry.flags.items() if flag.kind != "runtime"}
    registry = replace(registry, flags=others)
    with_flag = replace(registry, flags={**others, "FAPIPE": FAPIPE})
    before, after = plan(registry), plan(with_flag, environ={"SPARKCTL_FLAG_FAPIPE": "0"})
    assert before.folder == after.folder
    assert [edge.argv for edge in before.edges] == [edge.argv for edge in after.edges]
    assert (runtime_flags_of(registry, SM_90, "release"), after.sets) == ((), {})
    (flag,) = runtime_flags_of(with_flag, SM_90, "release")
    assert flag.kernels == {"attn_decode_split_kv": "1", "attn_decode_split_kv_mma": "1"}
    assert contents_digest(before, {}) != contents_digest(after, {})


def test_a_build_refuses_to_set_what_is_read_at_each_call(registry: Registry) -> None:
    with_flag = replace(registry, flags={**registry.flags, "FAPIPE": FAPIPE})
    with pytest.raises(UsageError, match="--set FAPIPE=0: FAPIPE is read at each call") as raised:
        plan(with_flag, sets={"FAPIPE": "0"})
    assert "SPARKCTL_FLAG_FAPIPE=0" in str(raised.value.hint)
