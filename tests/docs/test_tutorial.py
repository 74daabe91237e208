"""docs/tutorial.md can be carried out: `make outputs` does it all, these are the parts that take no time."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
from doc_pages import ROOT
from run_tutorial import COMMIT, PAGE, PICTURE, Failed, carry_out, changed
from terminal import WIDTH, picture, run_in_terminal
from tutorial_steps import Step, parse_tutorial, replace_outputs

STEPS = parse_tutorial(PAGE.read_text(encoding="utf-8"))
PAGE_OF_TWO = """Text.

<!-- step: exits 3; in the picture -->
```sh
false
```

```
old
```

<!-- step: in ../broken -->
```diff
-a
+b
```
"""


def test_the_page_is_read_into_steps() -> None:
    first, second = parse_tutorial(PAGE_OF_TWO)
    assert (first.kind, first.text, first.exit_code, first.output, first.pictured) == (
        "sh",
        "false\n",
        3,
        "old\n",
        True,
    )
    assert (second.kind, second.text, second.tree, second.output) == ("diff", "-a\n+b\n", "../broken", None)
    assert replace_outputs(PAGE_OF_TWO, [first, second], ["new\n", None]) == PAGE_OF_TWO.replace("old", "new")


@pytest.mark.parametrize(
    ("page", "told"),
    [
        ("```\nx\n```\n", "line 1: an output without its command"),
        ("```sh\nls\n```\n\nThis prints\n\n```\nx\n```\n", "line 7: an output without its command"),
        ("\n<!-- step: skip -->\n```sh\nls\n```\n", "line 2: a step cannot be 'skip'"),
    ],
)
def test_a_page_that_cannot_be_checked_is_refused(page: str, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        parse_tutorial(page)


def test_the_tutorial_has_all_its_steps() -> None:
    calls = [line for step in STEPS if step.run for line in step.text.splitlines() if line.startswith("sparkctl")]
    assert {word for call in calls for word in call.split()} >= {"regs", "test", "bench", "--sanitize", "--vs"}
    assert [step.text for step in STEPS if not step.run] == ["make setup\nsource .venv/bin/activate\n"]
    assert sum(step.output is not None for step in STEPS) >= 6


def test_the_table_of_the_proof_is_the_saved_one() -> None:
    page = PAGE.read_text(encoding="utf-8")
    proof = json.loads((ROOT / "benchmarks" / "results" / "h200" / "proof_fapipe.json").read_text(encoding="utf-8"))
    for arm in proof["tests"]["arms"]:
        assert f"{arm['passed']} of {arm['cases']} cases passed" in page
    used = [f"{row['registers']}, {row['blocks_per_sm']}" for row in proof["registers"]]
    assert f"| registers, blocks per SM | {' | '.join(used)} |" in page
    arms = [arm for arm in proof["accuracy"]["arms"] if not arm["paged"]]
    judged = [f"{arm['precision']['of_allowed']:.2f}, {arm['logits']['top1']:.3f}" for arm in arms]
    assert f"| accuracy: largest error of what is allowed, top-1 | {' | '.join(judged)} |" in page
    for case in proof["cases"]:
        times = [
            f"{_digits(case[f'{arm}_us'])} µs, {case[f'{arm}_tokens_per_s']:.0f} tok/s" for arm in ("before", "after")
        ]
        assert f"| {case['batch']} × {case['kv_len'] // 1024}k | {' | '.join(times)} |" in page
    assert {case["verdict"] for case in proof["cases"]} == {"faster"}


def _digits(time_us: float) -> str:
    """Four digits, as the tables of bench print times."""
    return f"{time_us:.1f}" if time_us >= 100 else f"{time_us:.2f}"


def test_every_edit_of_the_tutorial_applies_to_this_tree() -> None:
    edits = [step.text for step in STEPS if step.kind == "diff"]
    assert len(edits) == 2
    for edit in edits:
        done = subprocess.run(["git", "apply", "--check"], input=edit, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_the_picture_shows_what_the_tutorial_prints() -> None:
    root = ElementTree.fromstring(PICTURE.read_text(encoding="utf-8"))
    shown = _without_blanks("".join(root.itertext()))
    pictured = [step for step in STEPS if step.pictured]
    assert len(pictured) == 3
    for step in pictured:
        for line in [step.text, *(step.output or "").splitlines()]:
            assert _without_blanks(line) in shown, "make outputs"


def _without_blanks(text: str) -> str:
    return COMMIT.sub("", re.sub(r"\s", "", text))


def test_the_picture_is_light_and_loads_nothing() -> None:
    text = PICTURE.read_text(encoding="utf-8")
    assert len(text) < 40_000
    assert set(re.findall(r"https?://[^\"' ]+", text)) == {"http://www.w3.org/2000/svg"}


def test_a_command_runs_on_a_terminal_and_is_drawn(tmp_path: Path) -> None:
    done = run_in_terminal("stty size </dev/stdout; printf '\\033[31mred\\033[0m  \\n'; echo no >&2; exit 4", tmp_path)
    assert (done.plain, done.errors, done.exit_code) == (f"50 {WIDTH}\nred\n", "no\n", 4)
    drawn = picture([("cat x", done)], title="a session")
    words = "".join(ElementTree.fromstring(drawn).itertext()).replace("\xa0", " ")
    assert "$ cat x" in words and "red" in words and "a session" in words
    assert "\x1b" not in drawn


def step(text: str, *, exit_code: int = 0, output: str | None = None, kind: str = "sh") -> Step:
    return Step(kind, text, ".", exit_code, run=True, pictured=False, output=output, begin=0, end=0)


def test_another_exit_code_than_the_pages_fails(tmp_path: Path) -> None:
    assert carry_out(step("exit 3\n", exit_code=3), tmp_path) is not None
    with pytest.raises(Failed, match="ended with exit code 3 instead of 0"):
        carry_out(step("echo why >&2; exit 3\n"), tmp_path)


def test_an_edit_that_does_not_apply_fails(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="cannot be applied"):
        carry_out(step("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", kind="diff"), tmp_path)


@pytest.mark.parametrize(
    ("page", "differs"),
    [("HEAD (0123456789ab)\n", False), ("HEAD (fedcba987654)\n", False), ("HEAD (0123456789ab) x\n", True)],
)
def test_another_output_is_found_and_another_commit_is_not(tmp_path: Path, page: str, differs: bool) -> None:
    typed = step("echo 'HEAD (0123456789ab)'\n", output=page)
    assert (changed(typed, carry_out(typed, tmp_path)) is not None) == differs
