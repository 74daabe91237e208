"""Finds and reads flags.yaml: text to frozen Registry, every error with its line, its key and a hint."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sparkctl.errors import UsageError
from sparkctl.registry.assemble import assemble_registry
from sparkctl.registry.document import Document, KeyPath, parse_document
from sparkctl.registry.model import Registry
from sparkctl.registry.problems import Problems
from sparkctl.registry.salvage import salvage
from sparkctl.registry.schema import RegistrySpec, known_keys

REGISTRY_NAME = "flags.yaml"
PACKAGE = Path(__file__).resolve().parent.parent


def find_project(start: Path | None = None) -> Path:
    """The folder that holds flags.yaml: `start` or one above it; without `start`, the same from the current folder,
    else the copy that came with the package. UsageError when there is none, and for a flags.yaml that is no file.
    """
    origin = (start or Path.cwd()).expanduser().resolve()
    if start is not None and not origin.exists():
        raise UsageError(f"{start}: no such folder", hint="--project takes the folder that holds flags.yaml")
    if origin.is_file():
        origin = origin.parent
    packaged = [] if start is not None else [PACKAGE / "project", PACKAGE.parent]
    for folder in [origin, *origin.parents, *packaged]:
        file = folder / REGISTRY_NAME
        if file.is_file():
            return folder
        if os.path.lexists(file):
            raise UsageError(f"{file}: {_not_a_file(file)}", hint="mend or remove it, or name a project: --project DIR")
    raise UsageError(
        f"no {REGISTRY_NAME} in {origin} or above", hint="run it inside a project, or name one with --project DIR"
    )


def _not_a_file(path: Path) -> str:
    if path.is_dir():
        return "a folder, not a file"
    return "not a file" if path.exists() else "a link to a file that is not there"


def load_registry(path: Path, *, strict: bool = True) -> Registry:
    """Read and check a registry; `path` is the file or the folder that holds it.

    UsageError lists everything that is wrong, each as `flags.yaml:LINE: key …: what`. Not strict, absent sources
    and kernel names outside the naming pattern pass: `flags check` reports them beside its other findings.
    """
    file = path / REGISTRY_NAME if path.is_dir() else path
    if file.exists() and not file.is_file():
        raise UsageError(f"{file}: {_not_a_file(file)}", hint="docs/registry.md has the grammar")
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror or error}", hint="docs/registry.md has the grammar") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{file.name}:{line}: not UTF-8 text") from error
    return parse_registry(text, file.resolve(), strict=strict)


def parse_registry(text: str, file: Path, *, strict: bool = True) -> Registry:
    """As load_registry, from a text; only the existence of sources looks at the disk, beside `file`."""
    document = parse_document(text, file.name)
    problems = Problems(document)
    try:
        spec = RegistrySpec.model_validate(document.data)
    except ValidationError as error:
        salvaged = salvage(document.data, _explain(error, document, problems))
        if salvaged is None:
            raise problems.error() from error
        rest, problems.taken_out = salvaged
        spec = RegistrySpec.model_validate(rest)
    registry = assemble_registry(spec, file, problems, strict=strict)
    problems.raise_any()
    return registry


def _explain(error: ValidationError, document: Document, problems: Problems) -> list[KeyPath]:
    """pydantic's findings in our words: one for each key, unions joined into one sentence. The paths found wrong."""
    bad: list[KeyPath] = []
    wanted: dict[KeyPath, list[str]] = {}
    found: dict[KeyPath, Any] = {}
    for item in error.errors(include_url=False):
        path = _written_path(document, item["loc"])
        kind = item["type"]
        bad.append((*path, item["loc"][-1]) if kind == "missing" else path)
        if kind == "missing":
            problems.add(path, f"needs '{item['loc'][-1]}'")
        elif kind == "extra_forbidden":
            problems.add_unknown(path, "key", known_keys(path))
        elif kind == "literal_error" and item["loc"][-1] != "[key]":
            problems.add_not_one_of(path, item["input"], _quoted_words(item["ctx"]["expected"]))
        elif kind == "literal_error":
            problems.add_unknown(path, "key", _quoted_words(item["ctx"]["expected"]))
        elif kind == "version_type":
            problems.add(path, f"version is {_kind_of(item['input'])}", "write version: 1")
        elif kind.startswith(("too_short", "string_too_short")):
            problems.add(path, "is empty")
        elif kind in _TYPE_WORDS:
            wanted.setdefault(path, []).append(_TYPE_WORDS[kind])
            found[path] = item["input"]
        else:
            problems.add(path, str(item["msg"]))
    for path, words in wanted.items():
        problems.add(path, f"expected {' or '.join(dict.fromkeys(words))}, found {_kind_of(found[path])}")
    return bad


_TYPE_WORDS = {
    "string_type": "text",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "keys with values",
    "model_type": "keys with values",
    "model_attributes_type": "keys with values",
}


def _written_path(document: Document, loc: tuple[str | int, ...]) -> KeyPath:
    """The longest part of pydantic's path that is in the file; the rest names union members."""
    end = len(loc)
    while end and loc[:end] not in document.lines:
        end -= 1
    return loc[:end]


def _quoted_words(expected: str) -> list[str]:
    return re.findall(r"'([^']*)'", expected) or [expected]


def _kind_of(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "keys with values"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return f"the text '{value}'"
    return f"{str(value).lower() if isinstance(value, bool) else value}"
