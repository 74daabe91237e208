"""`sparkctl proof --vs`: this tree held against another revision, with made-up parts."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from proof_parts import COMMIT, FakeParts, Prove, prove_with

from sparkctl.arch import Arch
from sparkctl.bench.ab import Ab, Bits
from sparkctl.errors import UsageError, WorkFailed
from sparkctl.registry import load_registry
from sparkctl.testing.precision import Precision
from sparkctl.workflows import accuracy, bench_vs, proof
from sparkctl.workflows.accuracy_plan import AccuracyRequest, plan_accuracy
from sparkctl.workflows.revision import find_commit

ROOT = Path(__file__).resolve().parents[2]
KERNEL = "attn_decode_split_kv_mma"
VARIANT = f"{KERNEL}.bf16.d128"
VS = (VARIANT, "--vs", "HEAD~1")
BEFORE, AFTER = f"revision={COMMIT[:8]}", "revision=this tree"


@pytest.fixture
def parts() -> FakeParts:
    return FakeParts()


@pytest.fixture
def prove(parts: FakeParts, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Prove:
    monkeypatch.setattr(bench_vs, "find_commit", lambda root, name: COMMIT)
    return prove_with(parts, monkeypatch, capsys)


@pytest.mark.parametrize("columns", [80, 120])
def test_a_revision_is_the_first_arm_and_is_built_ahead_of_all_else(
    prove: Prove, parts: FakeParts, columns: int
) -> None:
    shown = prove(*VS, columns=columns)
    assert shown.code == 0, shown.err
    assert max(map(len, shown.out.splitlines())) <= columns
    assert parts.ran == ["baseline", "tests", "accuracy", "registers", "benchmark"]
    assert list(parts.opened) == [BEFORE]
    assert parts.accuracy_libraries is parts.opened
    assert parts.timed_libraries[BEFORE] is parts.opened[BEFORE]
    assert parts.timed_libraries[AFTER] is not parts.opened[BEFORE]
    text = " ".join(shown.out.split())
    assert f"{KERNEL}: {AFTER} against {BEFORE}, bf16, d128" in text
    assert f"{BEFORE} is HEAD~1 ({COMMIT[:12]}); tests are of this tree." in text
    assert f"{VARIANT}: better, registers 88 → 80" in text
    assert f"{VARIANT}, {AFTER}: bits equal, of 6144 outputs" in text
    assert shown.out.splitlines()[-1] == f"a gain: {AFTER} against {BEFORE}"
    tests = text.partition("tests, cuda")[2].partition("registers,")[0]
    assert f"{AFTER} 239 of 239 cases passed" in tests
    assert BEFORE not in tests


def test_json_says_which_commit_it_was_and_the_command_repeats(prove: Prove, parts: FakeParts) -> None:
    shown = prove(*VS, "--json", "--seq", "4k", "-q")
    data = json.loads(shown.out)
    assert (shown.code, data["baseline"]) == (0, {"name": "HEAD~1", "commit": COMMIT})
    assert [arm["label"] for arm in data["tests"]["arms"]] == [AFTER]
    assert [(row["arm"], row["registers"]) for row in data["registers"]] == [(BEFORE, 88), (AFTER, 80)]
    assert [(one["name"], one["verdict"]) for one in data["register_changes"]] == [(VARIANT, "better")]
    assert [arm["label"] for arm in data["accuracy"]["arms"]] == [f"{VARIANT}, {BEFORE}", f"{VARIANT}, {AFTER}"]
    words = shlex.split(data["command"])
    assert words[:7] == ["sparkctl", "proof", VARIANT, "--vs", "HEAD~1", "--seq", "4k"]
    again = prove(*words[2:], "--json", "-q")
    assert {**json.loads(again.out), "run": None} == {**data, "run": None}


def test_without_a_kernel_it_is_the_operators_choice(prove: Prove) -> None:
    data = json.loads(prove("--vs", "HEAD~1", "--json", "-q").out)
    chosen = {row["variant"] for row in data["registers"]}
    assert chosen
    assert {row["variant"] for row in data["run"]["rows"]} == chosen
    assert {arm["label"] for arm in data["accuracy"]["arms"]} == {
        f"{name}, {label}" for name in chosen for label in (BEFORE, AFTER)
    }


def test_a_slower_tree_is_no_gain(prove: Prove, parts: FakeParts) -> None:
    parts.gain = lambda case: 0.9
    shown = prove(*VS)
    assert shown.code == 1
    assert "no gain: no case is faster" in shown.out


def test_a_revision_that_does_not_build_costs_nothing_else(
    prove: Prove, parts: FakeParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise WorkFailed("HEAD~1 (fedcba987654) does not build\nsplit_kv.cu:3: no", hint="sparkctl build -v")

    monkeypatch.setattr(proof, "open_arm_libraries", broken)
    shown = prove(*VS)
    assert (shown.code, shown.out, parts.ran) == (1, "", [])
    assert shown.err.startswith("error: no proof: HEAD~1 (fedcba987654) does not build\n")


def test_what_the_revision_lacks_and_fails_is_said_of_it(prove: Prove, parts: FakeParts) -> None:
    parts.without_registers_before.add(VARIANT)
    parts.precision[BEFORE] = Precision(0.3, 0.9, 3.0)
    shown = prove(*VS)
    assert (shown.code, shown.out) == (1, "")
    assert f"registers: {VARIANT} has none on sm_90, {BEFORE}" in shown.err
    assert f"registers: sparkctl regs {VARIANT} --arch sm_90 --profile release --vs 'HEAD~1'" in shown.err
    assert f"accuracy: {VARIANT}, {BEFORE}: an output is off by 3.00 times what is allowed" in shown.err
    assert "accuracy: name a revision that passes" in shown.err
    assert "benchmark" not in parts.ran


def test_a_failing_test_of_this_tree_is_refused(prove: Prove, parts: FakeParts) -> None:
    parts.failing[VARIANT] = 2
    shown = prove(*VS)
    assert shown.code == 1
    assert f"tests: {AFTER}: 2 of 239 cases failed" in shown.err


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["--vs", "HEAD", "--ab", "FAPIPE=0,1"], "--ab and --vs exclude each other", "two runs"),
        (["--vs", "no-such-rev"], "--vs no-such-rev: no such revision\n", "--vs HEAD~1"),
        (["--vs", "--", "x"], "--vs --: not a revision", "--vs HEAD~1"),
        (["--vs", "build/libsparkctl.so"], "--vs build/libsparkctl.so: a library", "bench --vs takes a library"),
        (["--vs", "HEAD", "attn_combine"], "bench has no cases for attn_combine", ""),
        (["--vs", "HEAD", "--json", "--markdown"], "--json and --markdown exclude each other", "choose one"),
    ],
)
def test_what_vs_cannot_be_is_one_error(
    prove: Prove, parts: FakeParts, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str, hint: str
) -> None:
    monkeypatch.setattr(bench_vs, "find_commit", find_commit)
    shown = prove(*words)
    assert (shown.code, shown.out, parts.ran) == (2, "", [])
    assert message in shown.err
    assert hint in shown.err


def test_the_arms_of_accuracy_are_each_variant_in_each_library() -> None:
    registry = load_registry(ROOT / "flags.yaml")
    ab = Ab("revision", (COMMIT[:8], "this tree"))
    request = AccuracyRequest((VARIANT, "fa_split_gqa.bf16.d128.p1"), ab=ab)
    groups = plan_accuracy(registry, request, Arch(9, 0)).groups
    assert [[(arm.label, arm.variant, arm.library) for arm in group] for group in groups] == [
        [(f"{VARIANT}, {label}", VARIANT, label) for label in (BEFORE, AFTER)],
        [
            (f"fa_split_gqa.bf16.d128.p1, pages, {label}", "fa_split_gqa.bf16.d128.p1", label)
            for label in (BEFORE, AFTER)
        ],
    ]
    with pytest.raises(UsageError):
        plan_accuracy(registry, AccuracyRequest(("attn_combine",), ab=ab), Arch(9, 0))


def test_accuracy_runs_an_arm_in_its_own_library_and_the_others_in_that_of_the_tree(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here, there = (SimpleNamespace(manifest=SimpleNamespace(compiler="nvcc")) for _ in range(2))
    used: list[Any] = []

    def run(problems: object, attention: Any) -> list[Any]:
        used.append(attention.args[1].library)
        return []

    judge = SimpleNamespace(problems=(), plain=None, precision=lambda outputs: None, score=lambda attention: None)
    monkeypatch.setattr(accuracy, "ensure_built", lambda *args, **options: Path("build"))
    monkeypatch.setattr(accuracy, "load_library", lambda folder: here)
    monkeypatch.setattr(accuracy, "load_answers", lambda request, device: SimpleNamespace(tokens=""))
    monkeypatch.setattr(accuracy, "Judge", lambda *args: judge)
    monkeypatch.setattr(accuracy, "run_problems", run)
    monkeypatch.setattr(accuracy, "count_differences", lambda first, second: Bits(0, 1, 0.0))
    request = AccuracyRequest((VARIANT,), ab=Ab("revision", (COMMIT[:8], "this tree")))
    accuracy.run_accuracy(
        load_registry(ROOT / "flags.yaml"),
        request,
        backend="cuda",
        device="NVIDIA H200",
        arch=Arch(9, 0),
        others={BEFORE: there},  # type: ignore[dict-item]
    )
    assert [library is there for library in used] == [True, False]
    assert used[1] is here
