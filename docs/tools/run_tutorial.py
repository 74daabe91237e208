"""Does what docs/tutorial.md says, in a clone of the last commit: `python docs/tools/run_tutorial.py [--update]`.

Every command is run and must end with the exit code and print what the page says, on a terminal of 100 columns. With
--update the page gets what was printed, and docs/assets/terminal.svg is drawn from it; without, the exit code is 1 if
the page says something else. A commit's id is not compared: it is another one with each commit.
"""

from __future__ import annotations

import difflib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from terminal import Captured, picture, run_in_terminal
from tutorial_steps import Step, parse_tutorial, replace_outputs

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
PICTURE = ROOT / "docs" / "assets" / "terminal.svg"
COMMIT = re.compile(r"\b[0-9a-f]{12}\b")


class Failed(Exception):
    """A step did not do what the page says."""


def main(args: list[str]) -> int:
    page = PAGE.read_text(encoding="utf-8")
    steps = parse_tutorial(page)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "sparkctl"
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(tree)], check=True)
        try:
            captured = [carry_out(step, tree) for step in steps]
        except Failed as failure:
            print(failure, file=sys.stderr)
            return 1
    outputs = [changed(step, done) for step, done in zip(steps, captured, strict=True)]
    if "--update" in args:
        PAGE.write_text(replace_outputs(page, steps, outputs), encoding="utf-8")
        shown = [(step.text, done) for step, done in zip(steps, captured, strict=True) if step.pictured and done]
        PICTURE.write_text(picture(shown, title="sparkctl"), encoding="utf-8")
        return 0
    for step, output in zip(steps, outputs, strict=True):
        if output is not None and step.output is not None:
            said, printed = step.output.splitlines(), output.splitlines()
            print(*difflib.unified_diff(said, printed, "the page", step.text.strip(), lineterm=""), sep="\n")
    return 1 if any(output is not None for output in outputs) else 0


def carry_out(step: Step, tree: Path) -> Captured | None:
    """What a typed step printed; None for edits and steps that are not run. Raises Failed."""
    if not step.run:
        return None
    print(f"… {step.text.splitlines()[0]}", file=sys.stderr)
    if step.kind == "diff":
        done = subprocess.run(["git", "apply"], input=step.text, cwd=tree / step.tree, capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"{step.text}cannot be applied to {step.tree}: {done.stderr}")
        return None
    captured = run_in_terminal(step.text, tree)
    if captured.exit_code != step.exit_code:
        said = f"{step.text}ended with exit code {captured.exit_code} instead of {step.exit_code}"
        raise Failed(f"{said}\n{captured.plain}{captured.errors}")
    return captured


def changed(step: Step, captured: Captured | None) -> str | None:
    """What was printed, where it is not what the page says."""
    if captured is None or step.output is None:
        return None
    same = COMMIT.sub("", captured.plain) == COMMIT.sub("", step.output)
    return None if same else captured.plain


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
