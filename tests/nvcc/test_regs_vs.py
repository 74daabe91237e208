"""`regs --vs` of a real git revision: a change that trades registers for spills shows both, on archs that differ."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hungry_project import REGISTRY, SOURCE, whole_toolchain

from sparkctl.arch import parse_archs
from sparkctl.errors import UsageError, WorkFailed
from sparkctl.registry import load_registry
from sparkctl.render.regs_vs import describe_change
from sparkctl.toolchain import Toolchain, find_native_archs
from sparkctl.workflows.regs import report_regs
from sparkctl.workflows.regs_vs import RegsComparison, Selected, compare_regs

pytestmark = pytest.mark.nvcc
CAPPED = """\
    set: {cap: '-maxrregcount=40,-override-directive-values'}
    block: 128
"""


@pytest.fixture(scope="module")
def toolchain() -> Toolchain:
    return whole_toolchain()


def git(root: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    return subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True, text=True).stdout.strip()


def commit(root: Path, message: str) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-qm", message)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A project inside a repository: in its second commit the kernel is capped."""
    root = tmp_path / "kernels"
    (root / "csrc").mkdir(parents=True)
    (root / "flags.yaml").write_text(REGISTRY, encoding="utf-8")
    (root / "csrc" / "hungry.cu").write_text(SOURCE, encoding="utf-8")
    (tmp_path / ".gitignore").write_text("build/\n")
    git(tmp_path, "init", "-q")
    commit(tmp_path, "free")
    (root / "flags.yaml").write_text(REGISTRY.replace("    block: 128\n", CAPPED), encoding="utf-8")
    commit(tmp_path, "capped")
    return root


def compare(root: Path, toolchain: Toolchain, name: str, patterns: tuple[str, ...] = ()) -> RegsComparison:
    registry = load_registry(root / "flags.yaml")
    archs = parse_archs("sm_89,sm_90", native=find_native_archs)
    selected = Selected(patterns or ("hungry.v64",), archs, {}, "release", {})
    report = report_regs(registry, selected.patterns, archs=archs, toolchain=toolchain)
    return compare_regs(registry, report, selected, name, toolchain=toolchain, environ=os.environ)


def test_a_trade_of_registers_for_spills_shows_both(clone: Path, toolchain: Toolchain) -> None:
    before = git(clone, "status", "--porcelain"), git(clone, "worktree", "list"), git(clone, "stash", "list")
    comparison = compare(clone, toolchain, "HEAD~1")
    assert [(change.arch, change.verdict) for change in comparison.changes] == [("sm_89", "moved"), ("sm_90", "moved")]
    for change in comparison.changes:
        found = {difference.field: difference for difference in change.differences}
        assert found["registers"].new == 40 < (found["registers"].old or 0)
        assert found["spill_store_bytes"].old == 0 < (found["spill_store_bytes"].new or 0)
        assert (found["warps_per_sm"].new or 0) > (found["warps_per_sm"].old or 0)
    assert all("limiter registers → " in describe_change(change) for change in comparison.changes[:1])
    sm_89, sm_90 = (change.new for change in comparison.changes)
    assert sm_89 and sm_90
    assert (sm_89.warps_per_sm, sm_90.warps_per_sm) == (48, 48)  # all of the first, three quarters of the second
    assert (git(clone, "status", "--porcelain"), git(clone, "worktree", "list"), git(clone, "stash", "list")) == before
    tree = clone / "build" / "revisions" / git(clone, "rev-parse", "HEAD~1")
    stamp = (tree / "flags.yaml").stat().st_mtime_ns
    assert compare(clone, toolchain, "HEAD~1").changed == comparison.changed
    assert (tree / "flags.yaml").stat().st_mtime_ns == stamp  # exported once
    assert [path.name for path in tree.parent.iterdir()] == [tree.name]
    assert compare(clone, toolchain, "HEAD").changed == ()


def test_what_the_revision_does_not_have_is_new_and_said(clone: Path, toolchain: Toolchain) -> None:
    text = (clone / "flags.yaml").read_text()
    kernel = text[text.index("  hungry:") :]
    other = kernel.replace("  hungry:", "  greedy:").replace("hungry.cu", "greedy.cu")
    (clone / "flags.yaml").write_text(text + other)
    (clone / "csrc" / "greedy.cu").write_text(SOURCE.replace("hungry_kernel", "greedy_kernel"))
    comparison = compare(clone, toolchain, "HEAD", ("greedy.v16",))
    assert [change.verdict for change in comparison.changes] == ["new", "new"]
    assert "greedy.v16" in comparison.notes[0]


def test_a_revision_that_does_not_build_or_read_says_which(clone: Path, toolchain: Toolchain) -> None:
    good = (clone / "csrc" / "hungry.cu").read_text()
    (clone / "csrc" / "hungry.cu").write_text("this is no C++\n")
    commit(clone, "broken source")
    (clone / "csrc" / "hungry.cu").write_text(good)
    with pytest.raises(WorkFailed, match=r"HEAD \([0-9a-f]{12}\) does not build\n"):
        compare(clone, toolchain, "HEAD")
    text = (clone / "flags.yaml").read_text()
    (clone / "flags.yaml").write_text("version: 7\n")
    commit(clone, "broken registry")
    (clone / "flags.yaml").write_text(text)
    with pytest.raises(UsageError, match=r"HEAD \([0-9a-f]{12}\): flags.yaml:1: "):
        compare(clone, toolchain, "HEAD")
    git(clone.parent, "rm", "-rq", "--cached", "kernels")
    git(clone.parent, "commit", "-qm", "gone")
    with pytest.raises(UsageError, match="has no folder kernels"):
        compare(clone, toolchain, "HEAD")
