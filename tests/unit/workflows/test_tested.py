"""A test counts for a variant only with the flags, the arch and the sources that it ran with."""

from dataclasses import replace
from pathlib import Path

import pytest

from sparkctl.arch import parse_arch
from sparkctl.registry import Registry, load_registry
from sparkctl.testing.verdicts import Verdict, code_key, remember
from sparkctl.toolchain import hash_files
from sparkctl.workflows.tested import LastTest, LastTests, verdicts_path

SM_90, SM_89 = parse_arch("sm_90"), parse_arch("sm_89")
REGISTRY = """\
version: 1
profiles:
  release: {doc: x, nvcc: [-O3]}
flags:
  min_blocks: {kind: define, type: int, default: 1, define: MIN, affects: ['*'], doc: x, reason: x}
  fast: {kind: nvcc, type: bool, default: 1, affects: ['*'], options: {1: [-f], 0: []}, doc: x, reason: x}
kernels:
  k:
    family: decode
    doc: x
    source: k.cu
    min_arch: sm_80
    axes: {head_dim: {values: [64], short: d}}
    block: 128
    dynamic_smem: 0
"""


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    (tmp_path / "flags.yaml").write_text(REGISTRY)
    (tmp_path / "k.cu").write_text("one\n")
    return load_registry(tmp_path / "flags.yaml")


def verdict_of(registry: Registry, **changes: object) -> Verdict:
    code = {"k.cu": hash_files([registry.root / "k.cu"])}
    verdict = Verdict(
        "k.d64", "emulator", "the emulator", "sm_90", "release", {}, 40, 0, True, "0123", False, "2026", code_key(code)
    )
    remember(verdicts_path(registry, {}), [replace(verdict, **changes)], {code_key(code): code})
    return replace(verdict, **changes)


def last(registry: Registry, sets: dict[str, str] | None = None, arch=SM_90, profile: str = "release"):
    return LastTests(registry, {}).of("k.d64", arch, profile, sets or {})


def test_it_is_current_until_a_source_changes(registry: Registry) -> None:
    assert last(registry) is None
    verdict = verdict_of(registry)
    assert last(registry) == LastTest(verdict, current=True)
    (registry.root / "k.cu").write_text("two\n")
    assert last(registry) == LastTest(verdict, current=False)
    (registry.root / "k.cu").unlink()
    assert last(registry) == LastTest(verdict, current=False)


def test_other_flags_are_another_variant_where_the_backend_compiles_them(registry: Registry) -> None:
    verdict = verdict_of(registry)
    assert last(registry, {"min_blocks": "4"}) is None
    assert last(registry, {"fast": "0"}) == LastTest(verdict, current=True)  # g++ never sees an nvcc option
    assert last(registry, profile="debug") is None
    four = verdict_of(registry, sets={"min_blocks": "4"}, failed=2)
    assert last(registry, {"min_blocks": "4"}) == LastTest(four, current=True)
    assert last(registry, {"min_blocks": "04"}) == LastTest(four, current=True)


def test_a_device_speaks_for_its_own_arch_and_before_the_emulator(registry: Registry) -> None:
    emulated = verdict_of(registry)
    on_a_gpu = verdict_of(registry, backend="cuda", device="NVIDIA H200", failed=1)
    assert last(registry) == LastTest(on_a_gpu, current=True)
    assert last(registry, arch=SM_89) == LastTest(emulated, current=True)
    assert last(registry, {"fast": "0"}) == LastTest(emulated, current=True)  # the GPU's code would differ
