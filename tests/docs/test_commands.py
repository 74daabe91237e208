"""Every sparkctl command in the documentation is one that the program takes."""

from __future__ import annotations

import fnmatch
import re
import shlex
from functools import cache
from typing import Any

import pytest
import typer
from doc_pages import ROOT, Snippet, snippets

from sparkctl.cli.app import COMMANDS, PROGRAM, hoist_globals, load_command, root_command
from sparkctl.errors import SparkctlError
from sparkctl.registry import load_registry, select_variants

# In an outline of a call, not a call: options and words that a reader replaces.
OUTLINE = re.compile(r"[…\[|]|\b(?:KERNEL|FILE|NAME|DIR|FOLDER|REV|VALUE|GPU|ARCH|AXIS|FLAG|COMMAND|VARIANT)\b")
WITHOUT_VALUE = re.compile(r"requires an argument|[Mm]issing argument")
READERS_OWN = {"rmsnorm", "scale", "softmax"}  # kernels of other projects, in examples for them
FILE = re.compile(r"[/~]|\.(?:cu|cpp|cubin|log|so|o)$")


def calls() -> list[tuple[str, str, bool]]:
    """Where each stands, the words behind `sparkctl`, and whether it is inline code."""
    found = []
    for snippet in snippets():
        text = re.sub(r"^\$ |^[A-Z_]+=\S+ ", "", snippet.text.strip())
        if text.startswith(f"{PROGRAM} ") and not _is_other(snippet):
            found.append((snippet.where, text.removeprefix(f"{PROGRAM} "), snippet.language is None))
    return found


def _is_other(snippet: Snippet) -> bool:
    """What a program printed may open with its name: `sparkctl test of 1 variant`, a line of environment."""
    return bool(re.match(rf"{PROGRAM} (?:test of \d|\d|build folder)", snippet.text.strip()))


def words_of(call: str) -> list[str]:
    """The words ahead of a remark, which opens with `#` or stands two blanks or more apart."""
    quoted = re.split(r"('[^']*'|\"[^\"]*\")", call)
    kept = ""
    for number, part in enumerate(quoted):
        remark = re.search(r"\s{2,}|\s#", part) if number % 2 == 0 else None
        kept += part[: remark.start()] if remark else part
        if remark:
            break
    words = shlex.split(kept)
    return words[: min((words.index(sign) for sign in (">", "|", "&&") if sign in words), default=len(words))]


@cache
def command(name: str) -> Any:
    return load_command(name)


def find(words: list[str]) -> tuple[Any, list[str], typer.Context]:
    """The command that words name, its own words, and the context of what is around it."""
    root = root_command()
    around = root.make_context(PROGRAM, list(words), resilient_parsing=True)
    rest = _behind_globals(words)
    assert rest[0] in {row.name for row in COMMANDS}, f"no command '{rest[0]}'"
    part, rest = command(rest[0]), rest[1:]
    for _ in range(2):
        inner = getattr(part, "commands", {})
        if rest and rest[0] in inner:
            part, rest = inner[rest[0]], rest[1:]
    return part, rest, around


def _behind_globals(words: list[str]) -> list[str]:
    rest = list(words)
    while rest and rest[0].startswith("-"):
        rest = rest[2:] if rest[0] == "--project" else rest[1:]
    return rest


def complaint(call: str, *, inline: bool = False) -> str | None:
    """What is wrong with a call; None if nothing is. Inline code may name a command and an option and no more."""
    if OUTLINE.search(call):
        return _outline_complaint(call)
    try:
        words = hoist_globals(words_of(call))
        if not _behind_globals(words):
            return None
        part, rest, around = find(words)
        if getattr(part, "commands", None):  # a group: its own callback's options, or a wrong name
            return None if all(word.startswith("-") for word in rest) else f"no part '{rest[0]}'"
        context = part.make_context(part.name, list(rest), parent=around)
    except (typer.TyperException, SparkctlError, AssertionError) as error:
        told = error.format_message() if isinstance(error, typer.TyperException) else str(error)
        return _outline_complaint(call) if inline and WITHOUT_VALUE.search(told) else told
    except typer.Exit:
        return None
    return _kernel_complaint(context.params)


def _outline_complaint(call: str) -> str | None:
    words = re.findall(r"[a-z]\w*|--?[a-z][\w-]*", call)
    try:
        part, _, around = find(hoist_globals(words))
    except AssertionError as error:
        return str(error)
    parts = [part, *getattr(part, "commands", {}).values()]
    known = {
        opt for p in [*parts, around.command] for param in p.params for opt in (*param.opts, *param.secondary_opts)
    }
    unknown = [option for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", call) if option not in known | {"--help"}]
    return f"no option {unknown[0]}" if unknown else None


def _kernel_complaint(params: dict[str, Any]) -> str | None:
    """A kernel that flags.yaml does not have."""
    named = params.get("kernels") or params.get("kernel") or ()
    patterns = [
        name
        for name in ([named] if isinstance(named, str) else named)
        if not FILE.search(name) and name not in READERS_OWN
    ]
    unknown = [pattern for pattern in patterns if not fnmatch.filter(kernel_and_variant_names(), pattern)]
    return f"no kernel and no variant is named '{unknown[0]}'" if unknown else None


@cache
def kernel_and_variant_names() -> frozenset[str]:
    registry = load_registry(ROOT)
    return frozenset([*registry.kernels, *(variant.name for variant in select_variants(registry))])


CALLS = calls()


def test_the_documentation_is_full_of_calls() -> None:
    assert len(CALLS) > 200
    assert {where.partition(":")[0] for where, _, _ in CALLS} >= {"README.md", "docs/tutorial.md", "docs/sanitize.md"}


def test_every_call_in_the_documentation_is_one_that_the_program_takes() -> None:
    wrong = [f"{where}: {call}: {text}" for where, call, inline in CALLS if (text := complaint(call, inline=inline))]
    assert wrong == []


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("regs attn_combine --max-registers 64", "--max-registers"),
        ("regs [KERNEL…] [--max-registers 64]", "no option --max-registers"),
        ("registers attn_combine", "no command 'registers'"),
        ("test attn_combined", "attn_combined"),
        ("test attn_combine --sanitize speed", "speed"),
        ("flags explains attn_combine", "no part 'explains'"),
        ("--project ../x test --backend gpu", "gpu"),
        ("build -j none    as many as there are", "valid integer"),
    ],
)
def test_a_wrong_call_is_found(call: str, told: str) -> None:
    assert told in (complaint(call) or "")


@pytest.mark.parametrize(
    "call", ["build --explain    and why", "regs my.cu # any", "list -v", "regs 'attn_*' --csv > x.csv", "--version"]
)
def test_a_right_call_is_none(call: str) -> None:
    assert complaint(call) is None
