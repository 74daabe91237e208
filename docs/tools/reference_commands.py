"""docs/reference/commands.md: every command with arguments, options, defaults and exit codes, from the typer app."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import typer
from markdown_text import cell, code, link_pages, table

from sparkctl import errors
from sparkctl.cli.app import COMMANDS, INTERRUPTED, PROGRAM, load_command, root_command

OPENING = f"""# Commands

Every command of `{PROGRAM}`, as its `--help` says it. What they print is described in the pages of each command.
`KERNEL` is a kernel's or a variant's name or a glob; left out it is all of them. An option that takes a value takes it
as `--option VALUE` or `--option=VALUE`."""


def commands_page() -> str:
    root = root_command()
    context = typer.Context(root, info_name=PROGRAM)
    blocks = [OPENING, *_contents(), "## Options of every command", "These may stand before or behind the command."]
    blocks += _options(root, context)
    blocks += ["## Exit codes", *_exit_codes()]
    for row in COMMANDS:
        blocks += _command(load_command(row.name), row.name, context, level=2)
    return "\n\n".join(blocks)


def _contents() -> Iterator[str]:
    rows = [[f"[{PROGRAM} {row.name}](#{PROGRAM}-{row.name})", cell(row.summary)] for row in COMMANDS]
    yield table(["command", "does"], rows)


def _exit_codes() -> Iterator[str]:
    """What each class of error in errors.py says of itself."""
    classes = [errors.WorkFailed, errors.UsageError, errors.MissingTool]
    rows = [["0", "Done."]]
    rows += [[str(kind.exit_code), cell(" ".join((kind.__doc__ or "").split()))] for kind in classes]
    rows.append([str(INTERRUPTED), "Interrupted (Ctrl-C); what was finished is kept."])
    yield table(["code", "meaning"], rows)


def _command(command: Any, path: str, parent: typer.Context, *, level: int) -> Iterator[str]:
    context = typer.Context(command, info_name=path.split()[-1], parent=parent)
    sections = _help_sections(command.help or "")
    yield f"{'#' * level} {PROGRAM} {path}"
    yield f"```\n{PROGRAM} {' '.join([path, *command.collect_usage_pieces(context)])}\n```"
    yield from (link_pages(text) for text in sections["text"])
    yield from _arguments(command, context)
    yield from _options(command, context)
    yield from (f"```sh\n{text}\n```" for text in sections["examples"])
    if level == 2:
        own = sections["exit"]
        yield from own or ["Exit codes: [those of every command](#exit-codes)."]
    for name, part in getattr(command, "commands", {}).items():
        yield from _command(part, f"{path} {name}", context, level=level + 1)


def _help_sections(text: str) -> dict[str, list[str]]:
    """A help text's paragraphs by kind; `\\b` opens one whose lines are kept."""
    sections: dict[str, list[str]] = {"text": [], "examples": [], "exit": []}
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        lines = [line for line in paragraph.splitlines() if line.strip() != "\b"]
        if lines[0].strip() == "Examples:":
            sections["examples"].append("\n".join(line.removeprefix("  ") for line in lines[1:]))
        elif lines[0].startswith("Exit codes:"):
            sections["exit"].append(cell(" ".join(line.strip() for line in lines)))
        else:
            sections["text"].append(cell(" ".join(line.strip() for line in lines)))
    return sections


def _arguments(command: Any, context: typer.Context) -> Iterator[str]:
    found = [param for param in command.params if param.param_type_name == "argument"]
    rows = [[code(name), link_pages(cell(text))] for name, text in _records(found, context)]
    if rows:
        yield table(["argument", "meaning"], rows)


def _options(command: Any, context: typer.Context) -> Iterator[str]:
    found = [param for param in command.params if param.param_type_name == "option"]
    rows = []
    for name, text in _records(found, context):
        meaning, _, extra = text.rpartition("  [") if text.endswith("]") and "  [" in text else (text, "", "")
        default, limits = _extra(extra.removesuffix("]"))
        shown = f"{meaning} ({limits})" if limits else meaning
        rows.append([code(name), code(default), link_pages(cell(shown))])
    if rows:
        yield table(["option", "default", "meaning"], rows)


def _records(params: Sequence[Any], context: typer.Context) -> Iterator[tuple[str, str]]:
    for param in params:
        record = param.get_help_record(context)
        if record is not None:  # None: hidden
            yield record


def _extra(text: str) -> tuple[str, str]:
    """`default: 1; x>=1` as ("1", "at least 1")."""
    parts = [part.strip() for part in text.split(";") if part.strip()]
    default = next((part.removeprefix("default: ") for part in parts if part.startswith("default: ")), "")
    limits = [part for part in parts if not part.startswith("default: ")]
    return default, ", ".join(re.sub(r"^x>=(.+)$", r"at least \1", limit) for limit in limits)
