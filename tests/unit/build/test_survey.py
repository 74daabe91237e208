"""Which edges must run, and the reason given."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkctl.build.model import Edge, Link
from sparkctl.build.stamps import Stamp
from sparkctl.build.state import UNKNOWN, EdgeRecord, FolderState, InputDigests, load_state, save_state, write_text
from sparkctl.build.survey import explain_change, link_key

EDGE = Edge("a", None, "a.cu", "a.o", "a.ptxas", ("nvcc", "-O3", "-c", "a.cu"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "a.cu").write_text("source")
    (tmp_path / "a.h").write_text("header")
    return tmp_path


def record(root: Path, **changes: object) -> EdgeRecord:
    inputs = InputDigests(root).digests(["a.cu", "a.h"])
    return EdgeRecord(**{"salt": "s.1", "argv": EDGE.argv, "compiler": "c", "inputs": inputs, **changes})


def change(root: Path, known: EdgeRecord | None, edge: Edge = EDGE) -> str | None:
    return explain_change(edge, known, "c", InputDigests(root))


def test_an_unchanged_edge_has_no_reason(root: Path) -> None:
    assert change(root, record(root)) is None


def test_an_edge_without_record_was_never_built(root: Path) -> None:
    assert change(root, None) == "not built in this folder yet"


def test_changed_inputs_are_named(root: Path) -> None:
    known = record(root)
    (root / "a.h").write_text("other")
    assert change(root, known) == "a.h changed"
    (root / "a.cu").write_text("other")
    assert change(root, known) == "a.cu changed (and 1 more)"
    (root / "a.cu").unlink()
    assert change(root, known) == "a.cu is gone (and 1 more)"


def test_an_input_that_changed_while_it_was_compiled_is_never_equal(root: Path) -> None:
    assert change(root, record(root, inputs={"a.cu": UNKNOWN})) == "a.cu changed"


def test_changed_options_are_named(root: Path) -> None:
    assert change(root, record(root, argv=("nvcc", "-O2", "-c", "a.cu"))) == "options changed: without -O2, with -O3"
    assert change(root, record(root, argv=("nvcc", "-c", "-O3", "a.cu"))) == "the order of options changed"


def test_another_compiler_is_a_reason(root: Path) -> None:
    assert change(root, record(root, compiler="older")) == "the compiler changed"


def test_state_survives_a_round_trip(root: Path) -> None:
    state = FolderState(3, {"a": record(root)}, "key", {"lib.so": Stamp(1, 2, "d")}, {"lib.so": "from"})
    save_state(root, state)
    assert load_state(root) == state


def test_a_link_is_due_when_an_object_was_made_again_since(root: Path) -> None:
    """Also by a build that did not make this link, as one without the runner."""
    link = Link("link-runner", "run", ("g++",), ("runner",))
    edges = [EDGE, *(Edge(name, None, "x.cpp", f"{name}.o", None, ("g++",)) for name in ("runner/main", "binding/x"))]
    stamps = {"a": Stamp(1, 10, "da"), "runner/main": Stamp(1, 10, "dm"), "binding/x": Stamp(1, 10, "dx")}

    def key(**changes: Stamp) -> str:
        made = {**stamps, **{name.replace("_", "/"): stamp for name, stamp in changes.items()}}
        records = {e.name: record(root, outputs={e.output: made[e.name]}) for e in edges}
        return link_key(link, edges, records)

    assert key() == key(binding_x=Stamp(2, 99, "new"))
    assert key() != key(a=Stamp(1, 11, "da"))
    assert key() != key(runner_main=Stamp(1, 10, "new"))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 99}', '{"version": 2, "edges": {"a": 3}}'])
def test_an_unreadable_state_is_an_empty_one(root: Path, text: str) -> None:
    (root / "state.json").write_text(text)
    assert load_state(root) == FolderState()


def test_equal_text_is_not_written_again(root: Path) -> None:
    assert write_text(root / "x", "one")
    before = (root / "x").stat().st_mtime_ns
    assert not write_text(root / "x", "one")
    assert (root / "x").stat().st_mtime_ns == before
    assert write_text(root / "x", "two")
    assert [path.name for path in root.glob(".*")] == []
