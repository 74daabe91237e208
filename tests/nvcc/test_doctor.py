"""doctor with the real compilers, and clean after a real build."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.nvcc


def test_a_machine_with_everything_compiles_and_caches(tiny) -> None:
    done = tiny.sparkctl("doctor", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    findings = {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}
    for name in (
        "python",
        "torch",
        "g++",
        "nvcc",
        "CUDA headers",
        "ninja",
        "ccache",
        "cache",
        "project",
        "build folder",
    ):
        assert findings[name]["state"] == "ok", findings[name]
    assert findings["ccache"]["what"].endswith("brings back what nvcc compiled")
    assert not (tiny.root / "build").exists()


def test_after_clean_everything_comes_from_the_cache(built) -> None:
    done = built.sparkctl("clean")
    assert (done.returncode, done.stderr) == (0, "")
    assert [path.name for path in (built.root / "build").iterdir()] == [".lock"]
    assert {edge.status for edge in built.build().edges if edge.is_variant} == {"cached"}


def test_a_variant_that_flags_yaml_no_longer_has_leaves_its_objects_to_clean(built) -> None:
    path = built.root / "flags.yaml"
    path.write_text(path.read_text().replace("{values: [1, 2], short: n}", "{values: [1], short: n}"))
    assert built.sparkctl("clean", "--vanished").returncode == 0
    objects = {path.name for path in (built.folder() / "obj").iterdir()}
    assert {name.partition(".o")[0] for name in objects if name.endswith(".o")} == {"alpha.n1", "beta.n1"}
    result = built.build()
    assert {edge.name: edge.status for edge in result.edges} == {"alpha.n1": "up to date", "beta.n1": "up to date"}
