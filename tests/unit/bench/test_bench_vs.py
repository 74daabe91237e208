"""Arms in libraries of their own: what --vs names, what is built for each value of a compiled flag, what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_device import FakeDevice, fake_library

from sparkctl.arch import Arch
from sparkctl.bench.ab import Ab
from sparkctl.bench.axes import DecodeCase, Heads
from sparkctl.errors import UsageError, WorkFailed
from sparkctl.registry import Registry, Variant, find_project, load_registry
from sparkctl.runtime import Library, write_manifest
from sparkctl.workflows import bench_vs
from sparkctl.workflows.bench import plan_calls_of
from sparkctl.workflows.bench_ab import parse_ab
from sparkctl.workflows.bench_builds import arm_root
from sparkctl.workflows.bench_plan import plan_bench
from sparkctl.workflows.bench_request import BenchRequest
from sparkctl.workflows.bench_vs import HERE, open_arm_libraries, parse_vs
from sparkctl.workflows.revision import Revision

ARCH = Arch(9, 0)
CASE = DecodeCase(1, 4096, Heads(32, 8), 64)
MMA = "attn_decode_split_kv_mma.bf16.d64"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_registry(find_project() / "flags.yaml")


class Builds:
    """Records what would be built; every library is one that is made up."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[str], dict[str, str], Path | None]] = []

    def __call__(
        self,
        registry: Registry,
        variants: Sequence[Variant],
        *,
        arch: Arch,
        profile: str,
        sets: Mapping[str, str],
        build_root: Path | None = None,
        progress: Any = None,
    ) -> Library:
        self.asked.append(([variant.name for variant in variants], dict(sets), build_root))
        return fake_library(FakeDevice())


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> Builds:
    found = Builds()
    monkeypatch.setattr(bench_vs, "open_arm_library", found)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "before"
    found.mkdir()
    (found / "libsparkctl.so").write_bytes(b"")
    write_manifest(found, fake_library(FakeDevice()).manifest)
    return found


def test_a_compiled_flag_is_a_library_for_each_value_with_one_variant_in_the_same_splits(
    registry: Registry, builds: Builds
) -> None:
    ab = parse_ab(registry, "min_blocks=1,04", compiled=True)
    request = BenchRequest((CASE,), (), sets={"fast_math": "0"}, ab=ab)
    plan = plan_bench(registry, request, ARCH)
    (job,) = plan.jobs
    others = open_arm_libraries(registry, request, plan, ARCH, None)
    assert list(others) == ["min_blocks=1", "min_blocks=4"]
    assert [sets for _, sets, _ in builds.asked] == [
        {"fast_math": "0", "min_blocks": "1"},
        {"fast_math": "0", "min_blocks": "4"},
    ]
    assert builds.asked[0][0] == builds.asked[1][0]
    assert not any(name.startswith("stream_read") for name in builds.asked[0][0])
    calls = plan_calls_of(job, fake_library(FakeDevice()), 132, others)
    assert [call.library for call in calls] == list(others.values())
    assert len({(call.plan.variant, call.plan.num_splits) for call in calls}) == 1


def test_a_named_variant_can_be_held_against_itself_with_another_flag(registry: Registry, builds: Builds) -> None:
    ab = parse_ab(registry, "planted_work=0,700", compiled=True)
    plan = plan_bench(registry, BenchRequest((CASE,), (MMA,), ab=ab), ARCH)
    assert [arm.variant for arm in plan.jobs[0].arms] == [MMA, MMA]


def test_a_flag_that_does_not_reach_the_kernel_is_refused(registry: Registry) -> None:
    ab = parse_ab(registry, "planted_work=0,700", compiled=True)
    with pytest.raises(UsageError, match="it does not reach attn_decode_split_kv") as raised:
        plan_bench(registry, BenchRequest((CASE,), ("attn_decode_split_kv",), ab=ab), ARCH)
    assert raised.value.hint == "it reaches attn_decode_split_kv_mma"


def test_a_run_with_one_library_refuses_a_compiled_flag_and_says_what_takes_it(registry: Registry) -> None:
    with pytest.raises(UsageError, match="this run has one library") as raised:
        parse_ab(registry, "min_blocks=1,4")
    assert raised.value.hint == "sparkctl bench --ab min_blocks=… builds a library for each value"


def test_arms_of_a_runtime_flag_or_an_axis_need_no_library_of_their_own(registry: Registry, builds: Builds) -> None:
    for text in ("stages=1,2", "num_splits=1,2"):
        request = BenchRequest((CASE,), ab=parse_ab(registry, text))
        assert open_arm_libraries(registry, request, plan_bench(registry, request, ARCH), ARCH, None) == {}
    assert builds.asked == []


def test_each_set_of_flags_is_built_in_a_folder_of_its_own() -> None:
    roots = {arm_root(Path("build"), sets) for sets in ({"a": "1"}, {"a": "2"}, {}, {"a": "1", "b": "1"})}
    assert len(roots) == 4
    assert arm_root(Path("build"), {"a": "1", "b": "2"}) == arm_root(Path("build"), {"b": "2", "a": "1"})


def test_a_folder_and_the_library_in_it_are_the_same(registry: Registry, folder: Path) -> None:
    for name in (str(folder), str(folder / "libsparkctl.so")):
        vs = parse_vs(registry, name)
        assert vs.folder == folder
        assert vs.ab == Ab("library", ("before", HERE))


def test_a_revision_is_named_by_its_commit(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_vs, "find_commit", lambda root, name: COMMIT)
    assert parse_vs(registry, "HEAD~1").ab.labels == ("revision=01234567", "revision=this tree")


def test_a_library_of_another_manifest_or_backend_is_one_clear_error(registry: Registry, folder: Path) -> None:
    path = folder / "manifest.json"
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "schema_version": 99}))
    with pytest.raises(UsageError, match=r"--vs .*before: .*another schema_version") as raised:
        parse_vs(registry, str(folder))
    assert "--vs a git revision builds it anew" in str(raised.value.hint)
    path.write_text(json.dumps({**data, "backend": "emulator"}))
    with pytest.raises(UsageError, match="built for the emulator, not for a GPU"):
        parse_vs(registry, str(folder))


def vs_request(registry: Registry, name: str) -> BenchRequest:
    return BenchRequest((CASE,), (MMA,), ab=parse_vs(registry, name).ab, vs=name)


def test_a_library_of_another_arch_or_without_the_variant_is_refused_before_it_is_loaded(
    registry: Registry, folder: Path
) -> None:
    request = vs_request(registry, str(folder))
    plan = plan_bench(registry, request, ARCH)
    with pytest.raises(UsageError, match=r"built for sm_90, the device here is sm_100"):
        open_arm_libraries(registry, request, plan, Arch(10, 0), None)
    manifest = fake_library(FakeDevice()).manifest
    write_manifest(folder, replace(manifest, variants=tuple(v for v in manifest.variants if v.name != MMA)))
    with pytest.raises(UsageError, match=f"it holds no {MMA}") as raised:
        open_arm_libraries(registry, request, plan, ARCH, None)
    assert raised.value.hint == f"in its tree: sparkctl build {MMA} --arch sm_90"


def test_only_the_other_arm_of_vs_runs_from_the_other_library(
    registry: Registry, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, here = fake_library(FakeDevice()), fake_library(FakeDevice())
    monkeypatch.setattr(bench_vs, "load_library", lambda path: other)
    request = vs_request(registry, str(folder))
    plan = plan_bench(registry, request, ARCH)
    others = open_arm_libraries(registry, request, plan, ARCH, None)
    assert [c.library is here for c in plan_calls_of(plan.jobs[0], here, 132, others)] == [False, True]


def test_a_revision_is_built_in_its_own_tree_with_the_same_flags(
    registry: Registry, builds: Builds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_vs, "find_commit", lambda root, name: COMMIT)
    revision = Revision("HEAD~1", COMMIT, registry, Path("elsewhere"))
    monkeypatch.setattr(bench_vs, "open_revision", lambda *_: revision)
    request = replace(vs_request(registry, "HEAD~1"), sets={"min_blocks": "2"})
    plan = plan_bench(registry, request, ARCH)
    others = open_arm_libraries(registry, request, plan, ARCH, None)
    assert list(others) == ["revision=01234567"]
    ((names, sets, root),) = builds.asked
    assert MMA in names
    assert (sets, root) == ({"min_blocks": "2"}, Path("elsewhere"))


def test_a_revision_without_the_variant_or_that_does_not_build_says_so(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_vs, "find_commit", lambda root, name: COMMIT)
    older = replace(registry, kernels={k: v for k, v in registry.kernels.items() if "mma" not in k})
    monkeypatch.setattr(bench_vs, "open_revision", lambda *_: Revision("old", COMMIT, older, Path("elsewhere")))
    request = vs_request(registry, "old")
    plan = plan_bench(registry, request, ARCH)
    with pytest.raises(UsageError, match=r"--vs old \(0123456789ab\): it lacks what is to be compared"):
        open_arm_libraries(registry, request, plan, ARCH, None)

    def fail(*_: Any, **__: Any) -> Library:
        raise WorkFailed("1 of 5 failed")

    monkeypatch.setattr(bench_vs, "open_revision", lambda *_: Revision("old", COMMIT, registry, Path("elsewhere")))
    monkeypatch.setattr(bench_vs, "open_arm_library", fail)
    with pytest.raises(WorkFailed, match=r"old \(0123456789ab\) does not build\n1 of 5 failed"):
        open_arm_libraries(registry, request, plan, ARCH, None)
