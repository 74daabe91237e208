"""Noticing saves: stamps of real files, and the waiting on made-up looks and a made-up clock."""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from sparkctl.workflows import watch_sources
from sparkctl.workflows.watch_plan import matters
from sparkctl.workflows.watch_sources import (
    FileChange,
    Scope,
    Snapshot,
    SourceWatch,
    carry_over,
    differences,
    scope_of,
    take_snapshot,
)

A, B = Path("/p/csrc/a.cu"), Path("/p/csrc/b.h")
SCOPE = Scope(frozenset([A, B]), frozenset([Path("/p/csrc")]), frozenset())
OLD, NEW, NEWER = (1, 10, 1), (2, 10, 1), (3, 11, 1)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("csrc/a.cu", "csrc/common/b.h", "flags.yaml", ".hidden/x.cu", "build/y.cu"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("one\n", encoding="utf-8")
    return tmp_path


def changes_in(tree: Path, edit: Callable[[], object]) -> list[tuple[str, str]]:
    scope = scope_of([tree / "csrc/a.cu", tree / "csrc/common/b.h", tree / "flags.yaml"], tree)
    before = take_snapshot(scope)
    edit()
    found = differences(before, take_snapshot(scope))
    return [(change.path.relative_to(tree).as_posix(), change.what) for change in found]


def test_a_save_in_place_is_a_change(tree: Path) -> None:
    assert changes_in(tree, lambda: (tree / "csrc/common/b.h").write_text("more\n")) == [("csrc/common/b.h", "changed")]


def test_a_save_by_rename_is_a_change_even_with_the_same_size_and_time(tree: Path) -> None:
    target = tree / "csrc/a.cu"

    def edit() -> None:
        draft = tree / "csrc/.a.cu.tmp"
        draft.write_text("two\n", encoding="utf-8")
        os.utime(draft, ns=(target.stat().st_atime_ns, target.stat().st_mtime_ns))
        draft.replace(target)

    assert changes_in(tree, edit) == [("csrc/a.cu", "changed")]


def test_sources_that_come_and_go_are_seen_and_what_editors_leave_is_not(tree: Path) -> None:
    def edit() -> None:
        (tree / "csrc/common/new.cuh").touch()
        (tree / "csrc/a.cu").unlink()
        for name in (".a.cu.swp", "a.cu~", "#a.cu#", ".#a.cu", "4913", "notes.txt"):
            (tree / "csrc" / name).touch()
        (tree / "build/y.cu").write_text("other", encoding="utf-8")
        (tree / ".hidden/x.cu").unlink()

    assert changes_in(tree, edit) == [("csrc/a.cu", "deleted"), ("csrc/common/new.cuh", "added")]


def test_flags_yaml_counts_and_its_folder_does_not(tree: Path) -> None:
    def edit() -> None:
        (tree / "flags.yaml").write_text("version: 2\n", encoding="utf-8")
        (tree / "unrelated.cu").touch()

    assert changes_in(tree, edit) == [("flags.yaml", "changed")]


def test_kernels_beside_flags_yaml_have_their_folder_looked_at_alone(tree: Path) -> None:
    (tree / "ring.cu").touch()
    scope = scope_of([tree / "ring.cu", tree / "flags.yaml", Path("/elsewhere/x.h")], tree)
    assert (scope.deep, scope.flat) == (frozenset(), frozenset([tree]))
    assert set(take_snapshot(scope)) == {tree / "ring.cu", tree / "flags.yaml"}


class World:
    """Looks one after the other, the last again and again; sleeping moves the clock."""

    def __init__(self, *looks: Snapshot) -> None:
        self.looks = list(looks)
        self.now = 0.0
        self.slept: list[float] = []

    def look(self, scope: Scope) -> dict[Path, tuple[int, int, int]]:
        return dict(self.looks.pop(0) if len(self.looks) > 1 else self.looks[0])

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        assert self.now < 60, "it waits for ever"

    def watch(self) -> SourceWatch:
        return SourceWatch(self.look, self.sleep, lambda: self.now)


def wait(world: World, matters: Callable[[FileChange], bool] = lambda change: True) -> Sequence[FileChange]:
    watch = world.watch()
    watch.follow(SCOPE, began_ns=10)
    return watch.wait(matters)


def test_a_burst_of_saves_is_one_answer() -> None:
    first = {A: OLD, B: OLD}
    world = World(first, first, first, {A: NEW, B: OLD}, {A: NEWER, B: OLD}, {A: NEWER, B: NEW}, {A: NEWER, B: NEW})
    assert [change.path for change in wait(world)] == [A, B]
    assert world.slept.count(watch_sources.SETTLE_S) == 2


def test_a_file_that_is_away_for_a_moment_is_no_deletion() -> None:
    first = {A: OLD, B: OLD}
    world = World(first, first, {B: OLD}, {A: NEW, B: OLD}, {A: NEW, B: OLD})
    assert list(wait(world)) == [FileChange(A, "changed")]


def test_what_is_as_it_was_again_starts_nothing() -> None:
    first = {A: OLD, B: OLD}
    world = World(first, first, {B: OLD}, first, first, first, {A: OLD, B: NEW}, {A: OLD, B: NEW})
    assert list(wait(world)) == [FileChange(B, "changed")]


def test_something_that_never_rests_is_waited_for_only_so_long() -> None:
    world = World({A: OLD}, *({A: (number, 1, 1)} for number in range(2, 200)))
    assert [change.path for change in wait(world)] == [A]
    assert world.now < watch_sources.PATIENCE_S + 1


def test_a_change_that_does_not_matter_is_passed_over() -> None:
    world = World({A: OLD, B: OLD}, {A: OLD, B: OLD}, {A: NEW, B: OLD}, {A: NEW, B: OLD}, {A: NEW, B: NEW})
    assert list(wait(world, lambda change: change.path == B)) == [FileChange(B, "changed")]


def test_a_save_during_a_build_is_found_at_once_behind_it() -> None:
    world = World({A: OLD, B: OLD}, {A: OLD, B: NEW})
    watch = world.watch()
    watch.follow(SCOPE, began_ns=10)
    watch.follow(SCOPE, began_ns=10)  # the build is over; B was saved while it ran
    assert list(watch.wait(lambda change: True)) == [FileChange(B, "changed")]
    assert watch_sources.POLL_S not in world.slept


def test_a_header_met_for_the_first_time_counts_as_known_unless_it_was_saved_since() -> None:
    earlier = Scope(frozenset([A]), frozenset(), frozenset())
    quiet, saved = Path("/x/quiet.h"), Path("/x/saved.h")
    now = {A: OLD, quiet: (5, 1, 1), saved: (50, 1, 1)}
    known = carry_over({A: OLD}, earlier, now, began_ns=10)
    assert list(differences(known, now)) == [FileChange(saved, "added")]


def test_waiting_really_sees_a_save(tree: Path) -> None:
    target = tree / "csrc/a.cu"
    turns = 0

    def sleep(seconds: float) -> None:
        nonlocal turns
        turns += 1
        if turns == 2:
            target.write_text("another\n", encoding="utf-8")
        assert turns < 20

    watch = SourceWatch(sleep=sleep)
    watch.follow(scope_of([target], tree), began_ns=time.time_ns())
    assert list(watch.wait(lambda change: True)) == [FileChange(target, "changed")]


def test_what_starts_a_round() -> None:
    inputs = frozenset([A])
    other = Path("/p/csrc/other.cu")
    assert matters(FileChange(A, "changed"), inputs, broken=False)
    assert not matters(FileChange(other, "changed"), inputs, broken=False)
    assert matters(FileChange(other, "changed"), inputs, broken=True)  # it may be the header that does not compile
    assert matters(FileChange(other, "added"), inputs, broken=False)
    assert matters(FileChange(other, "deleted"), inputs, broken=False)
