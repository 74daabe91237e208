"""What pages show behind `$ sparkctl …`: `make outputs` runs it all, these are the parts that take no time."""

from __future__ import annotations

from pathlib import Path

import pytest
import shown_outputs
from doc_pages import ROOT, snippets
from shown_outputs import main, matches, parse_page, replace

PAGE = """Text.

```
$ sparkctl list
one
$ ./runner cases
…
two
```

<!-- not run: needs a GPU -->
```
$ sparkctl bench
fast
```

```
sparkctl list [KERNEL]
```
"""


def test_a_page_is_read_into_commands() -> None:
    first, second, third = parse_page(PAGE)
    assert (first.command, first.output, first.why) == ("sparkctl list", "one\n", None)
    assert (second.command, second.output, second.why) == ("./runner cases", "…\ntwo\n", None)
    assert (third.command, third.output, third.why) == ("sparkctl bench", "fast\n", "needs a GPU")
    assert PAGE[third.begin : third.end] == "fast\n"
    assert replace(PAGE, [(first, "1\n2\n"), (second, "x\n")]) == PAGE.replace("one\n", "1\n2\n")


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\n", "a\nb\n", False),
        ("a\n…\n", "a\nb\nc\n", True),
        ("a\n…\nc\n", "a\nc\n", True),
        ("a\n…\nc\n", "a\nc\nd\n", False),
        ("a.\n", "ab\n", False),
    ],
)
def test_an_ellipsis_takes_any_lines(shown: str, printed: str, same: bool) -> None:
    assert matches(shown, printed) == same


def test_every_session_of_the_documentation_is_found() -> None:
    pages = sorted((ROOT / "docs").rglob("*.md"))
    found = [shown for page in pages for shown in parse_page(page.read_text(encoding="utf-8"))]
    typed = [s.text for s in snippets() if s.where.startswith("docs/") and s.text.startswith("$ sparkctl")]
    assert sorted(f"$ {shown.command}" for shown in found if shown.command.startswith("sparkctl")) == sorted(typed)
    assert len(found) > 10
    assert sum(shown.why is None for shown in found) > 5


def test_another_output_fails_and_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    page.write_text("```\n$ sparkctl --version\nsparkctl 0\n```\n", encoding="utf-8")
    monkeypatch.setattr(shown_outputs, "ROOT", tmp_path)
    monkeypatch.setattr(shown_outputs.subprocess, "run", lambda words, **_: Path(words[-1]).symlink_to(ROOT))
    assert main([]) == 1
    assert capsys.readouterr().out.startswith("docs/page.md: $ sparkctl --version\nsparkctl ")
    assert main(["--update"]) == 1
    assert main([]) == 0
    assert "sparkctl 0\n" not in page.read_text(encoding="utf-8")
