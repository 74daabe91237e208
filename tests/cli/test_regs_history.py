"""`sparkctl regs --check`, `--update`, `--save` and `--vs`, over made-up compiler logs."""

# ruff: noqa: E501 - screens are as wide as they are

from __future__ import annotations

import datetime
import json
import subprocess
import tarfile
from pathlib import Path

import pytest
import regs_project
from regs_project import Run, make_runner

from sparkctl.render.regs_vs import describe_change
from sparkctl.resources.change import Change, Numbers
from sparkctl.workflows import regs_pins

TODAY = datetime.date.today()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return make_runner(tmp_path, monkeypatch, capsys)


@pytest.fixture
def numbers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Changes what the compiler says of a variant."""
    monkeypatch.setattr(regs_project, "NUMBERS", dict(regs_project.NUMBERS))

    def change(name: str, **new: int) -> None:
        fields = ("registers", "stores", "loads", "stack", "smem", "barriers")
        old = dict(zip(fields, regs_project.NUMBERS[name], strict=True))
        regs_project.NUMBERS[name] = tuple({**old, **new}.values())
        for log in tmp_path.glob(f"build/*/obj/{name}.ptxas"):
            log.unlink()

    return change


def rewrite(root: Path, old: str, new: str) -> None:
    path = root / "flags.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_what_is_pinned_passes_until_anything_differs(run: Run, numbers, tmp_path: Path) -> None:
    assert run("--check").err == (
        "error: benchmarks/regs/sm_90.json: nothing is pinned for sm_90\nhint: sparkctl regs --arch sm_90 --update\n"
    )
    assert run("--update").out == "5 kernels pinned: benchmarks/regs/sm_90.json"
    assert run("--update").out == "5 kernels pinned: nothing changed"
    good = run("--check")
    assert (good.code, good.out) == (0, "5 kernels compared: as pinned\nnvcc 13.0.88, profile release")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"registers": 103}, "worse   registers 102 → 103"),
        ({"registers": 101}, "better  registers 102 → 101"),
        ({"registers": 100, "stores": 8, "loads": 9}, "moved   registers 102 → 100, spill stores B 0 → 8, spill loads B 0 → 9, still blocks/SM 4 (occupancy 25.0 %)"),
        ({"smem": 40000}, "worse   static smem B 512 → 40000, blocks/SM 4 → 3 (occupancy 25.0 → 18.8 %)"),
    ],
)  # fmt: skip
def test_one_register_more_or_fewer_fails_until_it_is_pinned(
    run: Run, numbers, change: dict[str, int], said: str
) -> None:  # fmt: skip
    assert run("--update").code == 0
    numbers("ring.bf16.d64", **change)
    result = run("--check", columns=120)
    assert result.code == 1
    assert result.out.splitlines() == [
        "ring.bf16.d64",
        f"  sm_90  {said}",
        "",
        "1 of 5 differ from what is pinned: sparkctl regs --arch sm_90 --update pins them",
        "nvcc 13.0.88, profile release",
    ]
    assert run("--update").code == 0
    assert run("--check").code == 0


def test_a_new_variant_and_one_that_is_gone_fail(run: Run, tmp_path: Path, numbers) -> None:
    assert run("--update").code == 0
    rewrite(tmp_path, "head_dim: {values: [64, 256], short: d}", "head_dim: {values: [64, 128], short: d}")
    for dtype in ("bf16", "fp16"):
        regs_project.NUMBERS[f"ring.{dtype}.d128"] = (100, 0, 0, 0, 512, 1)
    result = run("--check")
    assert result.code == 1
    verdicts = [line.split()[1] for line in result.out.splitlines() if line.startswith("  sm_90")]
    assert verdicts == ["new", "new", "gone", "gone"]
    assert run("ring", "--check").code == 1  # also where only its kernel is asked for
    assert run("merge", "--check").code == 0
    assert run("--update").code == 0
    assert run("--check").code == 0
    pinned = json.loads((tmp_path / "benchmarks/regs/sm_90.json").read_text())["compilers"]["nvcc 13.0.88"]
    assert sorted(pinned) == ["merge.bf16", "ring.bf16.d128", "ring.bf16.d64", "ring.fp16.d128", "ring.fp16.d64"]


def test_a_part_is_pinned_without_the_rest(run: Run, numbers, tmp_path: Path) -> None:
    assert run("--update").code == 0
    numbers("ring.bf16.d64", registers=90)
    numbers("merge.bf16", registers=40)
    assert run("merge", "--update").code == 0
    assert run("merge", "--check").code == 0
    result = run("--check")
    assert result.code == 1
    assert "1 of 5 differ" in result.out


def test_another_compiler_is_said_and_pinned_beside(run: Run, tmp_path: Path, monkeypatch) -> None:
    assert run("--update").code == 0
    path = tmp_path / "benchmarks/regs/sm_90.json"
    path.write_text(path.read_text().replace("nvcc 13.0.88", "nvcc 12.9.1"))
    result = run("--check")
    assert result.code == 2
    assert result.err.startswith("error: benchmarks/regs/sm_90.json pins nvcc 12.9.1, and this is nvcc 13.0.88\n")
    assert run("--update").code == 0
    assert sorted(json.loads(path.read_text())["compilers"]) == ["nvcc 12.9.1", "nvcc 13.0.88"]
    assert run("--check").code == 0


WAIVER = """\
    waivers:
      - {variant: ring.bf16.d64, what: %s, reason: The next one is being written., expires: %s}
  merge:
"""


@pytest.mark.parametrize(
    ("what", "days", "code"), [("registers", 0, 0), ("registers", -1, 1), ("spills", 9, 1), ("smem", 9, 1)]
)
def test_a_waiver_holds_for_what_it_names_until_its_day(
    run: Run, numbers, tmp_path: Path, what: str, days: int, code: int
) -> None:  # fmt: skip
    assert run("--update").code == 0
    numbers("ring.bf16.d64", registers=103)
    expires = TODAY + datetime.timedelta(days=days)
    rewrite(tmp_path, "  merge:\n", WAIVER % (what, expires))
    result = run("--check", columns=120)
    assert result.code == code, result.out
    if code == 0:
        assert "waived" in result.out
        assert f"waived until {expires} by flags.yaml:" in result.out
    elif days < 0:
        assert f"expired on {expires}" in result.out
    else:
        assert "covers nothing: remove it" in result.out


def test_a_waiver_that_covers_a_part_waives_nothing(run: Run, numbers, tmp_path: Path) -> None:
    assert run("--update").code == 0
    numbers("ring.bf16.d64", registers=100, stores=8, loads=8)
    rewrite(tmp_path, "  merge:\n", WAIVER % ("registers", TODAY))
    assert run("--check").code == 1
    rewrite(
        tmp_path, "  merge:\n", f"      - {{variant: 'ring.*', what: spills, reason: x, expires: {TODAY}}}\n  merge:\n"
    )
    assert run("--check").code == 0


@pytest.mark.parametrize(
    "entry", ["what: colour, expires: 2027-01-31", "what: registers, expires: soon", "what: spills"]
)
def test_a_waiver_that_is_none_is_an_error_of_the_registry(run: Run, tmp_path: Path, entry: str) -> None:
    rewrite(tmp_path, "  merge:\n", f"    waivers:\n      - {{variant: ring, reason: x, {entry}}}\n  merge:\n")
    result = run("--check")
    assert result.code == 2
    assert result.err.startswith("error: flags.yaml:")


def test_an_update_that_fails_leaves_what_was_pinned(
    run: Run, numbers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    assert run("--update").code == 0
    path = tmp_path / "benchmarks/regs/sm_90.json"
    before = path.read_text()
    numbers("ring.bf16.d64", registers=90)

    def interrupted(baseline: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(regs_pins, "encode_baseline", interrupted)
    assert run("--update").code == 130
    assert path.read_text() == before
    assert sorted(p.name for p in path.parent.iterdir()) == ["sm_90.json"]
    path.write_text(before[:100])
    assert run("--check").code == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--check", "--update"], "error: --vs, --check, --update and --max-regs exclude each other\n"),
        (["--check", "--csv"], "error: --csv is of a report, not of a comparison\n"),
        (["--update", "--profile", "release", "--set", "x=1"], "error: --set: unknown flag 'x'"),
        (["--vs=-x"], "error: --vs -x: not a revision\n"),
        (["--vs", ""], "error: --vs : not a revision\n"),
        (["--save", "../up"], "error: --save ../up: not a name\n"),
        (["--save", "pinned"], "error: --save pinned: not a name\n"),
    ],
)
def test_wrong_usage(run: Run, words: list[str], message: str) -> None:
    result = run(*words)
    assert result.code == 2
    assert result.err.startswith(message), result.err


def test_outside_of_git_a_revision_is_refused_and_a_saved_report_compared(
    run: Run, numbers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    refused = run("--vs", "HEAD~1")
    assert (refused.code, refused.err.splitlines()[0]) == (2, f"error: --vs HEAD~1: {tmp_path} is in no git repository")
    assert run("--save", "before").err.endswith("saved: sparkctl regs --vs before compares with it\n")
    numbers("ring.fp16.d64", registers=80)
    result = run("--vs", "before", columns=100)
    assert result.out.splitlines() == [
        "before, saved → this tree",
        "",
        "ring.fp16.d64",
        "  sm_90  better  registers 96 → 80, blocks/SM 5 → 6 (occupancy 31.3 → 37.5 %)",
        "",
        "1 of 5 changed: 1 better",
        "sparkctl test of 5 variants: 5 not tested",
        "nvcc 13.0.88, profile release",
    ]
    data = json.loads(run("--vs", "before", "--json").out)
    assert [change["verdict"] for change in data["changes"]].count("same") == 4
    markdown = run("--vs", "before", "--markdown").out
    assert "| ring.fp16.d64 | sm_90 | better | registers 96 → 80" in markdown


def test_what_is_no_revision_is_refused(run: Run, tmp_path: Path) -> None:
    for words in (
        ["init", "-q"],
        ["add", "flags.yaml"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    result = run("--vs", "no-such-branch; touch PWNED")
    assert (result.code, result.err.splitlines()[0]) == (
        2, "error: --vs no-such-branch; touch PWNED: no such revision or saved report",
    )  # fmt: skip
    assert not (tmp_path / "PWNED").exists()
    assert run("--save", "HEAD").err.startswith("error: --save HEAD: a git revision has this name\n")


def test_a_waiver_speaks_of_its_own_kernel_alone(run: Run, numbers, tmp_path: Path) -> None:
    assert run("--update").code == 0
    numbers("merge.bf16", registers=31)
    rewrite(tmp_path, "  merge:\n", WAIVER.replace("ring.bf16.d64", "'*'") % ("registers", TODAY))
    result = run("--check", columns=120)
    assert result.code == 1
    assert "  sm_90  better  registers 32 → 31" in result.out.splitlines()


def test_a_waiver_that_covers_a_part_is_not_called_useless(run: Run, numbers, tmp_path: Path) -> None:
    assert run("--update").code == 0
    numbers("ring.bf16.d64", registers=100, stores=8, loads=8)
    rewrite(tmp_path, "  merge:\n", WAIVER % ("registers", TODAY))
    result = run("--check", columns=120)
    assert result.code == 1
    assert "covers nothing" not in result.out


@pytest.mark.parametrize("option", ["--check", "--update"])
def test_a_flag_of_the_environment_is_no_pin(run: Run, tmp_path: Path, monkeypatch, option: str) -> None:
    flag = "  fast: {kind: nvcc, type: bool, default: 0, affects: ['*'], options: {1: [-w], 0: []}, doc: x, reason: y}"
    rewrite(tmp_path, "flags: {}", f"flags:\n{flag}")
    assert run("--update").code == 0
    before = (tmp_path / "benchmarks/regs/sm_90.json").read_text()
    monkeypatch.setenv("SPARKCTL_FLAG_FAST", "1")
    result = run(option)
    assert result.code == 2
    assert "SPARKCTL_FLAG_FAST" in result.err
    assert (tmp_path / "benchmarks/regs/sm_90.json").read_text() == before


def test_the_command_that_pins_names_what_was_selected(run: Run, numbers) -> None:
    assert run("--update").code == 0
    numbers("ring.bf16.d64", registers=103)
    result = run("ring.*", "--head-dim", "64", "--check", columns=120)
    assert result.code == 1
    assert "sparkctl regs 'ring.*' --where head_dim=64 --arch sm_90 --update pins them" in result.out


def test_what_limits_the_blocks_is_said_where_it_is_another_resource() -> None:
    old = Numbers(168, 0, 0, 0, 0, 0, 1, 2, 8, limiters=("registers",))
    new = Numbers(96, 0, 0, 0, 0, 0, 1, 4, 16, limiters=("shared_memory", "warps"))
    assert describe_change(Change("ring", "sm_90", old, new)) == (
        "registers 168 → 96, blocks/SM 2 → 4 (occupancy 12.5 → 25.0 %), limiter registers → shared memory + warps"
    )


def commit_tree(root: Path, *more: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (
        ["init", "-q"],
        ["add", "flags.yaml", *(p.name for p in root.glob("*.cu")), *more],
        [*who, "commit", "-qm", "x"],
    ):
        subprocess.run(["git", "-C", str(root), *words], check=True)


def test_links_out_of_a_revision_are_left_out(run: Run, tmp_path: Path) -> None:
    (tmp_path / "far").symlink_to("/nowhere/else")
    (tmp_path / "near.cu.txt").symlink_to(next(tmp_path.glob("*.cu")).name)
    commit_tree(tmp_path, "far", "near.cu.txt")
    result = run("--vs", "HEAD")
    assert (result.code, result.err) == (0, "")
    (tree,) = (tmp_path / "build" / "revisions").iterdir()
    assert sorted(p.name for p in tree.iterdir() if p.is_symlink()) == ["near.cu.txt"]


def test_an_interrupted_export_leaves_no_tree_and_the_next_makes_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_tree(tmp_path)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tarfile.TarFile, "extractall", interrupted)
        assert run("--vs", "HEAD").code == 130
    assert list((tmp_path / "build" / "revisions").iterdir()) == []
    again = run("--vs", "HEAD")
    assert (again.code, again.err) == (0, "")
    assert again.out.splitlines()[-3:] == [
        "5 kernels compared: nothing changed",
        "sparkctl test of 5 variants: 5 not tested",
        "nvcc 13.0.88, profile release",
    ]
    (tree,) = (tmp_path / "build" / "revisions").iterdir()
    assert len(tree.name) == 40
