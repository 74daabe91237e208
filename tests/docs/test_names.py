"""Names in the documentation are names of the tree: make targets, paths, pages, options, environment variables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from doc_pages import PAGES, ROOT, snippets

from sparkctl.cli.app import COMMANDS, load_command, root_command
from sparkctl.registry import load_registry

# Options of other programs that pages name alone: page to options.
OTHERS = {
    "CONTRIBUTING.md": {"--coverage", "--every", "--only"},
    "docs/profile.md": {"--cache-control", "--clock-control", "--cap-add"},
    "docs/testing.md": {"--list", "--write"},
    "docs/reference/commands.md": {"--option"},
    "docs/reference/flags.md": {"--extra-device-vectorization", "--use_fast_math"},
}


def test_every_make_target_of_the_documentation_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = [(s.where, s.text.split()[1]) for s in snippets() if re.match(r"make [a-z-]+\b", s.text)]
    assert len(named) > 10
    assert [(where, target) for where, target in named if target not in targets] == []


def test_every_path_of_the_repository_is_there() -> None:
    """Inline code such as `csrc/attention/split_gqa.cuh`; not what holds a placeholder or is made by a build."""
    pattern = re.compile(r"(?:csrc|sparkctl|tests|docs|benchmarks)/[\w./-]+")
    named = [(s.where, s.text) for s in snippets() if s.language is None and pattern.fullmatch(s.text)]
    assert len(named) > 50
    assert [(where, path) for where, path in named if not (ROOT / path).exists() and "NAME" not in path] == []


def test_every_page_is_in_the_sites_contents() -> None:
    contents = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [str(page.relative_to(ROOT / "docs")) for page in PAGES if page.is_relative_to(ROOT / "docs")]
    assert [page for page in pages if not re.search(rf": {re.escape(page)}$", contents, re.MULTILINE)] == []


def test_every_option_that_stands_alone_is_one_of_a_command() -> None:
    known = {
        "--help",
        *(option for row in COMMANDS for option in options(load_command(row.name))),
        *options(root_command()),
    }
    named = [(s.where, s.text) for s in snippets() if s.language is None and s.text.startswith("--")]
    assert len(named) > 100
    assert [(where, text) for where, text in named if _option(text) not in known | _others(where)] == []


def options(command: Any) -> Iterator[str]:
    """Of a command and its parts; those of the root's parts are stand-ins without any."""
    for param in command.params:
        yield from (*param.opts, *param.secondary_opts)
    for part in getattr(command, "commands", {}).values():
        yield from options(part)


def _option(text: str) -> str:
    return re.split(r"[ =/]", text)[0]


def _others(where: str) -> set[str]:
    return OTHERS.get(where.partition(":")[0], set())


def test_every_environment_variable_is_read_somewhere() -> None:
    sources = [*(ROOT / "sparkctl").rglob("*.py"), *(ROOT / "csrc").rglob("*.cpp"), *(ROOT / "csrc").rglob("*.h")]
    code = "".join(path.read_text(encoding="utf-8") for path in sources)
    flags = {f"SPARKCTL_FLAG_{name.upper()}" for name in load_registry(ROOT).flags}
    named = {(name, s.where) for s in snippets() for name in re.findall(r"\bSPARKCTL_[A-Z_]*[A-Z]\b", s.text)}
    assert len({name for name, _ in named}) > 8
    assert [(name, where) for name, where in named if name not in flags and f'"{name}"' not in code] == []
